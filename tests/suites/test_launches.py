"""What `compare --asv` and `--pytest` measure next, decide and keep, without a project."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from flashbench.errors import InvalidInputError, NotMeasuredError
from flashbench.measuring.progress import Silent
from flashbench.outcome import Outcome
from flashbench.suites import comparing, pytest_runs, suite_file
from flashbench.suites.comparing import SuiteEnd, SuiteRequest, begun
from flashbench.suites.judging import open_cases, report_suite
from flashbench.suites.pytest_runs import PytestPair
from flashbench.suites.suite_file import SuiteCase, SuiteLaunch, SuiteResult, SuiteRun, SuiteSide


def _run(ratios: list[float], unit: str = "seconds") -> SuiteRun:
    side = SuiteSide(revision="x", commit="1" * 40)
    return SuiteRun(
        tool="asv",
        asked=["x"],
        a=side,
        b=SuiteSide(revision="y", commit="2" * 40),
        tolerance=0.01,
        confidence=0.95,
        cases=[SuiteCase(name="case", unit=unit)],
        launches=[
            SuiteLaunch(
                index=index,
                complete=True,
                results=[SuiteResult(case="case", a=[[1.0], [1.1]], b=[[ratio], [1.1 * ratio]])],
            )
            for index, ratio in enumerate(ratios)
        ],
    )


@pytest.mark.parametrize(
    ("ratios", "outcome"),
    [
        ([2.0, 2.1, 1.9, 2.05, 1.95, 2.0, 2.02], Outcome.SLOWER),
        ([0.5, 0.52, 0.49, 0.5, 0.51, 0.5, 0.495], Outcome.FASTER),
        ([1.0005, 0.9995, 1.0, 1.0002, 0.9998] * 3, Outcome.SAME),
        ([1.0, 1.1], Outcome.UNDECIDED),
    ],
)
def test_pairs_of_launches_decide(ratios: list[float], outcome: Outcome) -> None:
    """The ratio of passes that ran side by side, by the rule of two revisions."""
    run = _run(ratios)
    assert [verdict.outcome for verdict in report_suite(run).report.verdicts] == [outcome]
    assert bool(open_cases(run)) is (outcome is Outcome.UNDECIDED)


def test_a_launch_that_was_cut_short_is_finished_first() -> None:
    """What it has measured is kept; the next launch begins after it, if one may."""
    run = _run([1.0])
    run.cases = [SuiteCase(name=name) for name in ("case", "second", "third")]
    run.launches[0].complete = False
    assert [case.name for case in begun(run, 2)] == ["second", "third"]
    run.launches[0].results += [SuiteResult(case=name) for name in ("second", "third")]
    assert [case.name for case in begun(run, 2)] == ["case"]  # others have no ratio
    assert [(one.index, one.complete) for one in run.launches] == [(0, True), (1, False)]
    run.launches[1].complete = True
    assert begun(run, 2) == []


def test_a_budget_decides_some_cases_rather_than_begin_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """200 seconds decide some of 100 one-second benchmarks; the cost of all is said before.
    More budget goes on with the others."""
    names, clock, said = [f"case {number}" for number in range(100)], [0.0], []
    noise, run = random.Random(0), _run([])
    run.cases = [SuiteCase(name=name) for name in names]

    class Pair:
        together = 1

        def launch(self, index: int, cases: Sequence[SuiteCase]) -> Iterator[SuiteResult]:
            for case in cases:
                clock[0] += 1.0
                yield SuiteResult(case=case.name, a=[[noise.gauss(1.0, 0.01)]], b=[[2.0]])

    class Told(Silent):
        def note(self, text: str) -> None:
            said.append(text)

    monkeypatch.setattr(comparing, "monotonic", lambda: clock[0])
    pair: Any = Pair()
    for budget, least in ((200.0, 14), (600.0, 40)):
        request = SuiteRequest("a", "b", asv="case", budget=budget)
        end = SuiteEnd(run)
        comparing._measure(request, run, pair, tmp_path / "run.json", Told(), end)
        assert end.over_budget
        assert budget <= run.seconds < budget + 2
        outcomes = [one.outcome for one in report_suite(run).report.verdicts]
        assert outcomes.count(Outcome.SLOWER) >= least
        assert outcomes.count(Outcome.UNDECIDED) <= 3
    assert said[0].startswith("100 benchmarks of 1.0 s each: a launch takes about 2 min, verdicts ")


@pytest.mark.parametrize(("after", "kept"), [(1, 0), (2, 1), (3, 1)])
def test_an_interrupt_in_a_group_of_tests_keeps_whole_pairs(after: int, kept: int) -> None:
    """When twenty tests run together, Ctrl-C keeps the passes that both revisions have."""
    names = [f"test_{number}" for number in range(20)]

    class Interrupted(PytestPair):
        def _run(self, side: str, tests: Sequence[str]) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
            return pytest_runs._Pass({name: [1.0 + (side == "A")] for name in tests}, "")

    left, found = after, []
    pair = Interrupted(Any, Any, names, Path(), Path(), 1.0)  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        found.extend(pair.launch(0, [SuiteCase(name=name) for name in names]))
    assert [one.case for one in found] == names * kept
    assert all((one.a, one.b) == ([[2.0]], [[1.0]]) for one in found)


def test_a_suite_that_skips_everything_measured_nothing() -> None:
    """Nothing judged is no pass; a skip in one revision alone is a case that is not measured."""
    run = _run([1.0])
    run.launches[0].results = [SuiteResult(case="case", status="skipped", reason="so")]
    with pytest.raises(NotMeasuredError, match="both revisions skip all benchmarks: 1: case"):
        report_suite(run)
    run.launches[0].results[0].side = "B"
    assert [one.outcome for one in report_suite(run).report.verdicts] == [Outcome.NOT_MEASURED]


def test_numbers_without_a_ratio_are_not_measured() -> None:
    """A tracked zero says so."""
    (verdict,) = report_suite(_run([0.0] * 8, "items")).report.verdicts
    assert (verdict.outcome, verdict.reason) == (
        Outcome.NOT_MEASURED,
        "a ratio needs numbers above 0 on both sides",
    )


@pytest.mark.parametrize("damage", ['{"format"', '"confidence":7', '"version":9', '"case":[]'])
def test_damaged_files_are_refused(tmp_path: Path, damage: str) -> None:
    """One line, whatever is in them."""
    path = tmp_path / "suite.json"
    suite_file.save(_run([1.0]), path)
    text = path.read_text()
    name = damage.partition(":")[0]
    path.write_text(
        text[: len(text) // 2] if name == damage else text.replace(name, f'{damage},"x"', 1)
    )
    with pytest.raises(InvalidInputError, match=str(path)):
        suite_file.read(path)
