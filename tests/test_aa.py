"""`flashbench aa`: comparisons of a build with itself."""

import json
from dataclasses import replace
from pathlib import Path

import forks
import msgspec
import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from simulated_noise import autocorrelated
from synthetic import make_cases, make_pair

from flashbench import machine, runfile
from flashbench.aa import (
    MOST_LAUNCHES,
    TOLERANCES,
    attainable_tolerances,
    chance_of_as_many,
    compare_with_itself,
    detectable_changes,
)
from flashbench.cli import main
from flashbench.errors import Exit
from flashbench.launches import launch_data
from flashbench.outcome import Outcome
from flashbench.report import report_builds
from flashbench.runfile import BuildIdentity, Pair, RunFile
from flashbench.stats.proportion import Rate
from flashbench.stats.sequential import IntervalTerms, anytime_shifts
from flashbench.until_decided import decided_cases
from flashbench.verdict import outcome_of

ROOT = Path(__file__).parents[1]


@pytest.fixture
def without_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask families for their alarms alone: their own promises would cost a second a case."""
    monkeypatch.setattr("flashbench.aa.detectable_changes", lambda *_: {})


@pytest.mark.usefixtures("without_promises")
def test_launches_are_cut_into_comparisons() -> None:
    """45 launches are three comparisons of 14; the three that are left over are in none."""
    run = make_pair(np.random.default_rng(1), cases=make_cases(4), launches=45)
    found = compare_with_itself(launch_data(run), 14, 0.01, 0.05)
    assert found.family.trials == found.fixed.trials == 3
    assert found.alarms.trials == 12
    assert [noise.case.id for noise in found.cases] == [case.id for case in run.cases]
    # Two builds with 0.5 % between launches each, and what their samples add.
    assert all(0.004 < (noise.deviation or 0) < 0.012 for noise in found.cases)


@pytest.mark.usefixtures("without_promises")
def test_a_difference_is_an_alarm_in_every_comparison() -> None:
    """Where the copies do differ, by much, every comparison of that case is an alarm."""
    run = make_pair(
        np.random.default_rng(2), cases=make_cases(3), launches=36, speedup=[1.0, 1.5, 1.0]
    )
    found = compare_with_itself(launch_data(run), 12, 0.01, 0.05)
    assert [noise.alarms.count for noise in found.cases] == [0, 3, 0]
    assert (found.family.count, found.fixed.count) == (3, 3)
    assert found.family.interval()[0] > 0.05


ALARMS = ("FASTER", "SLOWER", "FASTER?", "SLOWER?")


def alarmed_by_compare(run: RunFile) -> tuple[RunFile, set[str]]:
    """The file that `compare` would have written, where what was decided is not in later launches;
    and the cases that it called different at any look."""
    decided = decided_cases(None, 0.01, 0.05)
    grown = msgspec.structs.replace(run, launches=[])
    settled: set[str] = set()
    alarmed: set[str] = set()
    for launch in run.launches:
        results = [result for result in launch.results if result.case not in settled]
        grown.launches.append(msgspec.structs.replace(launch, results=results))
        settled |= decided(grown)
        report = report_builds(grown, metric=None, tolerance=0.01, alpha=0.05)
        alarmed |= {c.case.id for c, verdict in report.judged if verdict.outcome in ALARMS}
    return grown, alarmed


@pytest.mark.usefixtures("without_promises")
@pytest.mark.parametrize("seed", range(4))
def test_looks_are_those_of_compare(seed: int) -> None:
    """Each comparison's alarms are those of `compare` on these launches, which measures no case
    that is decided: launches that resemble each other, cases that miss some, whole ones."""
    rng = np.random.default_rng(seed)
    run = make_pair(
        rng,
        cases=make_cases(6),
        launches=48,
        noise=autocorrelated,
        speedup=[1.0, 1.0, 1.02, 0.97, 1.01, 1.0],
    )
    first, last = run.cases[0].id, run.cases[-1].id
    for launch in run.launches:
        missing = {first} if rng.random() < 0.4 else set()
        missing |= {last} if launch.index < 16 else set()
        launch.results = [result for result in launch.results if result.case not in missing]
    expected = dict.fromkeys((case.id for case in run.cases), 0)
    compared = dict(expected)
    for start in (0, 16, 32):
        part = msgspec.structs.replace(run, launches=run.launches[start : start + 16])
        for place, launch in enumerate(part.launches):
            launch.index = place
        ended, alarmed = alarmed_by_compare(part)
        report = report_builds(ended, metric=None, tolerance=0.01, alpha=0.05)
        for comparison in report.comparisons:
            expected[comparison.case.id] += comparison.case.id in alarmed
            compared[comparison.case.id] += comparison.failure is None
    found = compare_with_itself(launch_data(run), 16, 0.01, 0.05)
    assert {n.case.id: n.alarms.count for n in found.cases} == expected
    assert {n.case.id: n.alarms.trials for n in found.cases} == compared
    assert 0 < found.alarms.count < found.alarms.trials


def found_by(launches: int, deviation: float, family: int, change: float, seed: int) -> float:
    """Share of cases, of fresh families whose cases all change, that `compare` calls FASTER."""
    run = make_pair(
        np.random.default_rng(seed),
        cases=make_cases(family),
        launches=launches * (320 // family),
        samples=2,
        between=deviation / np.sqrt(2),
        within=0.0,
        speedup=1 + change,
    )
    found = compare_with_itself(launch_data(run), launches, 0.01, 0.05).cases
    return 1 - sum(n.undecided for n in found) / sum(n.alarms.trials for n in found)


@pytest.mark.parametrize(
    ("deviation", "launches", "family"),
    [
        (0.01, 20, 8),
        pytest.param(0.01, 20, 64, marks=pytest.mark.thorough),
        (0.001, 8, 64),
        (0.001, 13, 64),
        (0.0005, 12, 64),
    ],
)
@pytest.mark.usefixtures("without_promises")
def test_what_is_promised_is_found(deviation: float, launches: int, family: int) -> None:
    """A change promised at 80 %, and any larger one, is FASTER in 80 % of fresh cases, about."""
    ratios = deviation * np.random.default_rng(3).standard_normal(400)
    promised = detectable_changes(ratios, family, 0.01, 0.05)[0.8][launches - 1]
    if np.isinf(promised):
        # So close together, launches wait for the signs: no large change is found either.
        assert found_by(launches, deviation, family, 0.05, 5) < 0.5
        return
    for larger in (1, 2):
        assert found_by(launches, deviation, family, larger * promised, 5) > 0.75
    if deviation == 0.01:  # and it is not a promise that is always kept
        assert found_by(launches, deviation, family, 0.8 * promised, 5) < 0.8


def test_more_launches_and_less_power_see_smaller_changes() -> None:
    """The smallest change falls with launches and rises with power; one launch sees nothing."""
    ratios = 0.01 * np.random.default_rng(4).standard_normal(30)
    found = detectable_changes(ratios, 16, 0.01, 0.05)
    assert np.isinf(found[0.8][0])
    assert len(found[0.8]) == MOST_LAUNCHES
    assert all(np.diff(found[0.8][np.isfinite(found[0.8])]) <= 0)
    assert (found[0.95] >= found[0.8]).all()
    assert (found[0.8] > 0.01).all()  # what is within the tolerance is never called different


def test_what_is_attainable_is_attained() -> None:
    """At the tolerance that is promised fresh unchanged cases are SAME in 80 %, about; at the next
    smaller one in fewer. From the first interval on it falls with
    launches; noise above all tolerances attains none."""
    rng = np.random.default_rng(5)
    found = attainable_tolerances(0.02 * rng.standard_normal(400), 8, 0.05)
    assert all(np.diff(found[9:]) <= 0)
    assert np.isinf(found[3])
    rows = 0.02 * rng.standard_normal((200, 20))
    shifts = anytime_shifts(rows, IntervalTerms(0.05 / 8, 8))
    limit = found[19]
    smaller = TOLERANCES[TOLERANCES.index(limit) - 1]
    shares = [
        np.mean([outcome_of(shift, np.log1p(t)) is Outcome.SAME for shift in shifts])
        for t in (limit, smaller)
    ]
    assert shares[0] > 0.75
    assert shares[1] < 0.8
    assert np.isinf(attainable_tolerances(rng.standard_normal(50), 8, 0.05)).all()


@pytest.mark.parametrize(
    ("count", "trials", "probability", "as_many"),
    [(0, 0, 0.05, 1.0), (0, 20, 0.05, 1.0), (1, 1, 0.05, 0.05), (1, 2, 0.05, 0.0975)],
)
def test_chance_of_few_alarms(count: int, trials: int, probability: float, as_many: float) -> None:
    """By hand: 1 - (1 - p)^n for one alarm or more."""
    assert chance_of_as_many(Rate(count, trials), probability) == pytest.approx(as_many)


@given(trials=st.integers(1, 3000), share=st.floats(0, 1), probability=st.floats(0.001, 0.5))
def test_chance_of_alarms_is_binomial(trials: int, share: float, probability: float) -> None:
    """The upper tail of the binomial distribution, against scipy's."""
    count = round(share * trials)
    exact = scipy.stats.binom.sf(count - 1, trials, probability)
    assert chance_of_as_many(Rate(count, trials), probability) == pytest.approx(exact, abs=1e-9)


@pytest.mark.usefixtures("without_promises")
@pytest.mark.parametrize(("count", "trials"), [(1, 2), (3, 20), (9, 100)])
def test_one_family_more_is_too_many(count: int, trials: int) -> None:
    """So many alarms at 95 % may be chance, one more is not: 2 of 2, 4 of 20, 10 of 100."""
    run = make_pair(np.random.default_rng(6), cases=make_cases(1), launches=2)
    found = compare_with_itself(launch_data(run), 2, 0.01, 1 - 0.95)
    assert not replace(found, family=Rate(count, trials)).too_many
    assert replace(found, family=Rate(count + 1, trials)).too_many


@pytest.mark.parametrize("field", ["spec", "source_hash", "library_hash"])
def test_two_different_builds_are_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    field: str,
) -> None:
    """A run file of `compare` is no build against itself: exit 2, nothing is kept."""
    monkeypatch.setenv("FLASHBENCH_MACHINE", str(tmp_path / "machine.json"))
    run = self_pair()
    side = next(c for c in run.candidates if c.name == "B")
    setattr(side if field == "spec" else side.build, field, "another:attention")
    runfile.save(run, tmp_path / "pair.json")
    with pytest.raises(SystemExit) as ended:
        main(["aa", "--resume", str(tmp_path / "pair.json"), "--save"])
    assert ended.value.code == Exit.USAGE
    assert "A and B are two different builds" in capsys.readouterr().err
    assert not (tmp_path / "machine.json").exists()


def test_resumed_file_says_tolerance_and_confidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A resumed file's, unless a flag says another; the analysis is announced on stderr."""
    monkeypatch.setenv("FLASHBENCH_CACHE", str(tmp_path / "cache"))
    run = self_pair()
    run.pair = Pair(old="A", new="B", tolerance=0.03, confidence=0.9)
    runfile.save(run, tmp_path / "pair.json")
    again = ["aa", "--resume", str(tmp_path / "pair.json"), "--format", "json"]
    again += ["--launches", "6", "--comparisons", "2"]
    for flags, tolerance in (([], 0.03), (["--tolerance", "2%"], 0.02)):
        with pytest.raises(SystemExit) as ended:
            main([*again, *flags])
        assert ended.value.code == Exit.PASS
        printed = capsys.readouterr()
        assert "analysing 12 launches of 2 cases" in printed.err
        summary = json.loads(printed.out)["summary"]
        assert (summary["tolerance"], summary["confidence"]) == (tolerance, 0.9)


def self_pair() -> RunFile:
    """A run file of one build against itself, complete."""
    run = make_pair(np.random.default_rng(7), cases=make_cases(2, ("fp32",)), launches=12)
    for candidate in run.candidates:
        if candidate.name in ("A", "B"):
            candidate.spec, candidate.baseline = "flashbench:attention", False
            candidate.build = BuildIdentity(library_hash="0" * 64)
    return run


@pytest.mark.slow
def test_command_measures_prints_and_keeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python candidate against itself: table, profile, and the same table from the file."""
    monkeypatch.setenv("FLASHBENCH_MACHINE", str(tmp_path / "machine.json"))
    monkeypatch.setenv("FLASHBENCH_CACHE", str(tmp_path / "cache"))
    (tmp_path / "plain.py").write_text(
        "from torch.nn.functional import scaled_dot_product_attention\n"
        "def attention(q, k, v, **keywords):\n"
        "    return scaled_dot_product_attention(q, k, v, **keywords).clone()\n"
    )
    command = ["aa", "--comparisons", "2", "--launches", "2"]
    first = [*command, "--candidate", "plain:attention", "--dtype", "fp32"]
    first += ["--shape", "1,1,8,8", "--causal", "full", "--samples", "4", "--min-sample", "1ms"]
    first += ["--run-file", str(tmp_path / "aa.json"), "--format", "json"]
    done = forks.run([*first, "--save"], tmp_path)
    assert done.returncode in (Exit.PASS, Exit.REGRESSION), done.stderr
    table = json.loads(done.stdout)
    assert table["summary"]["family_alarms"]["trials"] == 2
    (kept,) = machine.read(tmp_path / "machine.json").noise
    assert (kept.device, kept.cases, kept.compared) == ("cpu", 1, 2)
    assert len(kept.attainable) == MOST_LAUNCHES
    again = [*command, "--resume", str(tmp_path / "aa.json"), "--format", "json"]
    second = forks.run(again, tmp_path)
    assert json.loads(second.stdout) == table
    missing = [*command, "--candidate", "nowhere:attention"]
    third = forks.run(missing, tmp_path)
    assert third.returncode == Exit.NOT_MEASURED
    assert "no such package" in third.stderr
