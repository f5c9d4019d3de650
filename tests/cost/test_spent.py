"""A run's cost: for results, without a result, and saved."""

from pathlib import Path

import numpy as np
import pytest
from synthetic import make_cases, make_run

from flashbench import runfile
from flashbench.cost.money import DevicePrice
from flashbench.cost.spent import Spent, saved_seconds
from flashbench.fleet.merge import merge, split
from flashbench.runfile import Costs, Launch, RunFile
from flashbench.shard import equal_shards


def _run(launches: int, cases: int = 1) -> RunFile:
    shapes = make_cases(cases)
    return make_run(np.random.default_rng(0), cases=shapes, launches=launches)


@pytest.fixture
def run() -> RunFile:
    """Four launches of 5 s: 1 s until they start, 2 s a case; one result of the first failed."""
    found = _run(4, cases=2)
    for launch in found.launches:
        launch.device_seconds, launch.start_seconds = 5.0, 1.0
        launch.case_seconds = {case.id: 2.0 for case in found.cases}
        for result in launch.results:
            result.device_seconds = 0.75
    found.launches[0].results[0].status = "crashed"
    found.launches[1].lost_seconds = 0.5
    found.settings.launches = 10
    found.costs = Costs(
        build_seconds=30.0, currency="usd", price="H100, 2026-01-31, a page", rented_seconds=90.0
    )
    found.hourly_rate = 3600.0
    return found


def test_lost_seconds_are_those_without_a_result(run: RunFile) -> None:
    """What failed, and what a launch says it lost, is part of the device time, not more of it."""
    spent = Spent.of(run)
    assert (spent.device, spent.lost, spent.builds) == (20.0, 1.25, 30.0)
    assert spent.money(spent.lost) == pytest.approx(1.25)
    assert spent.line == (
        "device time 20 s, cost 20.00 usd; without a result 1.2 s, 1.25 usd; builds 30 s, 30.00 "
        "usd; rented machine, from start to end 90 s, 90.00 usd"
    )


def test_saved_seconds_are_the_rest_of_the_fixed_plan(run: RunFile) -> None:
    """A case that is decided saves its share of the launches left; all of them the starts too."""
    one, other = (case.id for case in run.cases)
    assert saved_seconds(run, [one]) == 6 * 2.0
    assert saved_seconds(run, [one, other]) == 6 * (2.0 + 2.0 + 1.0)
    assert saved_seconds(run, []) == 0.0
    run.settings.budget_seconds = run.device_seconds + 7.0
    assert saved_seconds(run, [one, other]) == 7.0


def test_no_price_is_no_money(run: RunFile) -> None:
    """Without a rate no amount is anywhere, nor where two files have different ones."""
    run.hourly_rate = None
    assert Spent.of(run).money(100.0) is None
    assert "usd" not in Spent.of(run).line
    priced = Spent(1.0, rate=DevicePrice(2.0, "usd"))
    assert priced.money(1800) == 1.0
    other = _run(1)
    other.hourly_rate = 7.0
    assert Spent.all_of([run, other]).rate is None


def test_account_is_kept_by_files_and_by_shards(run: RunFile, tmp_path: Path) -> None:
    """A file is read as it was written; the parts of a run add up to it again."""
    runfile.save(run, tmp_path / "run.json")
    assert runfile.read(tmp_path / "run.json") == run
    joined = merge([(str(place), part) for place, part in enumerate(split(run, equal_shards(2)))])
    assert Spent.of(joined) == Spent.of(run)
    assert joined.launches[2].case_seconds == run.launches[2].case_seconds


def test_files_of_older_versions_have_their_device_time() -> None:
    """What an older flashbench did not count is nothing, not an error."""
    spent = Spent.of(_run(3))
    assert spent.device == 6.0
    assert (spent.lost, spent.saved, spent.builds) == (0.0, 0.0, 0.0)
    assert spent.line == "device time 6.0 s"


@pytest.mark.parametrize(
    "damage",
    [
        {"start_seconds": -1.0},
        {"lost_seconds": 1e300},
        {"case_seconds": {"case": -0.5}},
    ],
)
def test_impossible_seconds_are_damage(damage: dict[str, float], tmp_path: Path) -> None:
    """A file from outside cannot make a report say that time went backwards."""
    found = _run(1)
    found.launches[0] = Launch(**{"index": 0, "seed": 0, **damage})
    runfile.save(found, tmp_path / "run.json")
    with pytest.raises(runfile.InvalidInputError, match="not a possible time"):
        runfile.read(tmp_path / "run.json")
