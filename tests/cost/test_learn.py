"""What is learned from a run: the next one's estimate is what this one took."""

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from synthetic import make_cases, make_run

from flashbench import operations
from flashbench.cost import store
from flashbench.cost.estimate import Work, total_seconds
from flashbench.cost.known import Basis, Experience
from flashbench.cost.learn import learn
from flashbench.errors import BudgetSpentError
from flashbench.machine import name_of
from flashbench.measuring.device_seconds import require_start
from flashbench.measuring.plan import Plan
from flashbench.operations import parse_case
from flashbench.runfile import RunFile, Workers


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLASHBENCH_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def run() -> RunFile:
    """Three launches; 40 samples in 20 turns take 0.2 s, checks 0.05 s, the reference 0.1 s."""
    found = make_run(np.random.default_rng(0), cases=make_cases(3), launches=3, samples=40)
    found.environment.cpu, found.environment.threads = "A CPU", 2
    found.settings.min_sample_seconds, found.settings.samples = 1e-3, 40
    for launch in found.launches:
        launch.start_seconds = 2.0
        for result in launch.results:
            for timing in result.timings:
                timing.calls = 1
                timing.seconds = [4e-3] * 40
                timing.block = [place // 5 for place in range(40)]
            result.sampling_seconds = 0.2
            result.device_seconds = 0.25
        launch.case_seconds = {case.id: 0.1 + 2 * 0.25 for case in found.cases}
        launch.device_seconds = 2.0 + 3 * 0.6
    first = found.launches[0]
    first.case_seconds = {case: seconds + 0.3 for case, seconds in first.case_seconds.items()}
    first.inspect_seconds = {case.id: 0.2 for case in found.cases}
    first.device_seconds += 3 * 0.5
    return found


def experience(threads: int | None = None, name: str = "A CPU") -> Experience:
    return Experience("cpu", store.read().find("cpu", name, threads))


def work_of(run: RunFile, **changed: object) -> Work:
    values = {
        "cases": run.cases,
        "candidates": [one.spec for one in run.candidates],
        "launches": 3,
        "samples": 40,
        "min_sample_seconds": 1e-3,
        "fresh": 3,
    }
    return Work(**{**values, **changed})


def test_same_run_again_takes_what_it_took(run: RunFile) -> None:
    """Starts, cases, and what the first launch does more."""
    learn(run, before=[])
    known = experience()
    assert known.level_of(work_of(run)) is Basis.KNOWN
    assert total_seconds(work_of(run), known) == pytest.approx(run.device_seconds)


def test_the_shortest_first_start_counts(run: RunFile) -> None:
    """Starts of the same candidates, else of any; a later run's slower start does not raise it."""
    assert experience().shortest_start(1, []) is None
    learn(run, before=[])
    run.launches[0].start_seconds = 9.0
    learn(run, before=[])
    specs = [one.spec for one in run.candidates]
    assert experience().shortest_start(1, specs) == 2.0
    assert experience().shortest_start(2, ["other:function"]) == 2.0


@pytest.mark.parametrize(("workers", "shortest"), [("fresh", 1.6), ("forked", 4.65)])
def test_one_slow_first_start_is_not_the_shortest(
    run: RunFile, workers: Workers, shortest: float
) -> None:
    """Later starts of fresh workers are like it; a fork's tells nothing about it. A budget is
    refused only below half of it."""
    run.settings.workers = workers
    for launch, seconds in zip(run.launches, [4.65, 1.6, 1.7], strict=True):
        launch.start_seconds = seconds
    run.environment.cpu = name_of("cpu")
    learn(run, before=[])
    assert experience(name=run.environment.cpu).shortest_start(1, []) == shortest
    shapes = operations.named("attention").parse("1,1,16,8")
    plan = Plan(shapes, [], ("fp32",), device="cpu", threads=run.environment.threads)
    require_start(replace(plan, budget_seconds=0.51 * shortest))
    with pytest.raises(BudgetSpentError, match="the shortest start of workers here took"):
        require_start(replace(plan, budget_seconds=0.49 * shortest))


def test_other_efforts_follow_from_it(run: RunFile) -> None:
    """Half the samples in as many turns; more launches without a first one."""
    learn(run, before=[])
    half = total_seconds(work_of(run, samples=20, launches=1, first=False), experience())
    assert half == pytest.approx(2.0 + 3 * (0.1 + 2 * (0.25 - 20 * 4e-3)))


def test_launches_of_an_earlier_call_are_learned_once(run: RunFile) -> None:
    """A resumed run adds only new launches."""
    learn(run, before=[launch.index for launch in run.launches])
    assert not store.path().exists()
    learn(run, before=[0, 1])
    assert store.read().machines[0].launches == 1


def test_range_comes_from_how_estimates_met_the_facts(run: RunFile) -> None:
    """Runs that took 1.5 times as long each time widen it; the first has nothing to be held to."""
    learn(run, before=[])
    assert experience().spread(Basis.KNOWN) == (0.65, 1.6)
    costs = store.read()
    costs.machines[0].ratios["known"] = [0.95, *[1.0, 1.1, 1.2] * 6, 1.5, 0.7, *[1.0] * 19, 2.0]
    store.path().write_bytes(store.msgspec.json.encode(costs))
    assert experience().spread(Basis.KNOWN) == (0.9, 1.5)


def test_cases_like_it_are_estimated_from_it(run: RunFile) -> None:
    """Others on the same machine are near; of another machine or thread count nothing is known."""
    learn(run, before=[])
    others = work_of(run, cases=make_cases(5))
    assert experience().level_of(others) is Basis.NEAR
    grown = total_seconds(others, experience()) / total_seconds(work_of(run), experience())
    assert 1 < grown < 5
    assert experience(threads=64).level_of(others) is Basis.GUESS
    assert experience(name="NVIDIA H999").level_of(others) is Basis.GUESS


def test_a_tiny_case_says_little_of_large_ones(run: RunFile) -> None:
    """What an almost empty call and its checks take does not grow with the operations."""
    tiny = [parse_case("b1-h1-q16-d16-fp16-full-cpu")]
    for launch in run.launches:
        launch.results = [r for r in launch.results if r.case == run.cases[0].id]
        for result in launch.results:
            result.case = tiny[0].id
        launch.case_seconds = {tiny[0].id: 0.6}
        launch.inspect_seconds = {}
    run.cases = tiny
    learn(run, before=[])
    large = work_of(run, cases=[parse_case("b1-h8-q512-d64-fp16-full-cpu")])
    assert total_seconds(large, experience()) < 100


def test_launches_until_decided_follow_from_the_spread(run: RunFile) -> None:
    """The case's own, else the usual one; more of it takes more launches, never more than
    allowed."""
    rng = np.random.default_rng(1)
    quiet, noisy = (
        make_run(rng, cases=make_cases(3), launches=20, between=n) for n in (0.003, 0.02)
    )
    counts = []
    for one in (quiet, noisy):
        one.environment.cpu, one.environment.threads = "A CPU", 2
        for launch in one.launches:
            launch.case_seconds = {case.id: 1.0 for case in one.cases}
        learn(one, before=[])
        found, known = experience().launches(
            work_of(run, cases=make_cases(4), launches=200), 0.01, 0.95
        )
        assert known
        counts.append(found[3])  # a case that was not measured
    assert 2 < counts[0].low <= counts[0].likely < counts[1].likely < counts[1].high <= 200
    found, _ = experience().launches(work_of(run, cases=make_cases(3), launches=5), 0.01, 0.95)
    assert {one.high for one in found} == {5}


def test_builds_in_a_process_each_take_more_launches() -> None:
    """Their ratio has the spread of two ratios to SDPA."""
    run = make_run(np.random.default_rng(1), cases=make_cases(2), launches=20, between=0.01)
    run.environment.cpu, run.environment.threads = "A CPU", 2
    for launch in run.launches:
        launch.case_seconds = {case.id: 1.0 for case in run.cases}
    learn(run, before=[])
    works = (work_of(run, launches=200, processes=count) for count in (1, 2))
    shared, paired = (experience().launches(work, 0.01, 0.95)[0] for work in works)
    assert all(one.likely < two.likely for one, two in zip(shared, paired, strict=True))


def test_a_start_is_known_by_what_it_imports(run: RunFile) -> None:
    """Another package's start does not blur it; what was never imported takes the usual start."""
    learn(run, before=[])
    alone = experience().start(1, ["sdpa", "flashbench"]).first
    other = copy.deepcopy(run)
    other.candidates[0].spec = "slow:attention"
    for launch in other.launches:
        launch.start_seconds += 9
    learn(other, before=[])
    assert experience().start(1, ["sdpa", "flashbench"]).first == alone
    assert experience().start(1, ["slow:attention"]).first == pytest.approx(alone + 9)
    assert alone < experience().start(1, ["new:attention"]).first < alone + 9


def test_without_a_spread_the_number_of_launches_is_a_guess(run: RunFile) -> None:
    """One launch has none."""
    del run.launches[1:]
    learn(run, before=[])
    assert not experience().launches(work_of(run, launches=40), 0.01, 0.95)[1]


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"format": "another", "version": 1}'])
def test_damaged_file_is_nothing_known(content: bytes, run: RunFile) -> None:
    """It is of the cache: it is written anew, and no command fails for it."""
    store.path().parent.mkdir(parents=True)
    store.path().write_bytes(content)
    assert experience().machine is None
    learn(run, before=[])
    assert experience().level_of(work_of(run)) is Basis.KNOWN


def test_cache_that_cannot_be_written_is_no_error(run: RunFile, tmp_path: Path) -> None:
    """A run is worth more than what would be learned from it."""
    (tmp_path / "cache").write_text("a file, where the cache should be")
    learn(run, before=[])


def test_run_without_an_account_teaches_nothing(run: RunFile) -> None:
    """Files of older versions do not say what went where."""
    for launch in run.launches:
        launch.case_seconds = {}
    learn(run, before=[])
    assert not store.path().exists()
