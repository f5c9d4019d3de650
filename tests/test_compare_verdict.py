"""Comparisons and verdicts, from run files in memory."""

import math
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated_noise import bimodal
from synthetic import TURNED, make_cases, make_pair, make_run, outcomes_of, small_run

from flashbench.comparison import Comparison, Estimate
from flashbench.errors import Exit
from flashbench.measuring.run_document import forget_unfinished, plan_to_resume
from flashbench.outcome import Outcome
from flashbench.pairing import Pairing
from flashbench.report import report_one, report_two
from flashbench.runfile import Result, RunFile
from flashbench.stats.modes import Modes
from flashbench.stats.sequential import IntervalTerms
from flashbench.stats.shift import Shift
from flashbench.verdict import Verdict, exit_code, judge, outcome_alone
from flashbench.views import frame


def _judge(low: float, value: float, high: float, tolerance: float = 0.01) -> Outcome:
    case = make_cases(1)[0]
    sides = (np.linspace(value - 0.01, value + 0.01, 20),)
    shift = Shift(value, low, high, 0.5)
    estimate = Estimate(shift, IntervalTerms(0.05), 0.5, False, (None,), anytime=False)
    comparison = Comparison(Pairing(case, "ours", "sdpa", "wall", sides=sides), estimate)
    outcome = judge(comparison, tolerance).outcome
    assert outcome_alone(comparison, tolerance) is outcome
    return outcome


@pytest.mark.parametrize(
    ("low", "value", "high", "expected"),
    [
        (-0.005, 0.0, 0.005, Outcome.SAME),
        (0.001, 0.003, 0.005, Outcome.SAME),  # real, but too small to matter
        (0.012, 0.02, 0.03, Outcome.FASTER),
        (-0.03, -0.02, -0.012, Outcome.SLOWER),
        (0.005, 0.02, 0.03, Outcome.PERHAPS_FASTER),
        (-0.03, -0.02, -0.005, Outcome.PERHAPS_SLOWER),
        (0.001, 0.008, 0.02, Outcome.UNDECIDED),  # real, perhaps below the tolerance
        (-0.001, 0.02, 0.05, Outcome.UNDECIDED),
        (-0.02, 0.0, 0.02, Outcome.UNDECIDED),
        (-math.inf, 0.5, math.inf, Outcome.UNDECIDED),
    ],
)
def test_the_rule(low, value, high, expected):
    """SAME inside the tolerance; FASTER or SLOWER beyond it, with "?" where it reaches into it, but
    not to 0; anything else UNDECIDED."""
    assert _judge(low, value, high) is expected


@given(st.tuples(*[st.floats(-0.1, 0.1)] * 3).map(sorted))
def test_the_rule_is_symmetric(ends):
    """Mirroring an interval turns FASTER into SLOWER and leaves the rest."""
    low, value, high = ends
    outcome = _judge(low, value, high)
    assert _judge(-high, -value, -low) is TURNED.get(outcome, outcome)


def test_one_file_finds_what_was_planted():
    """20 % faster, 20 % slower and equal get different verdicts."""
    run = small_run(1, speedup=[1.2, 0.8, 1.0], between=0.001, within=0.001)
    report = report_one(run)
    assert outcomes_of(report.verdicts) == [Outcome.FASTER, Outcome.SLOWER, Outcome.SAME]
    assert exit_code(report.verdicts) is Exit.REGRESSION
    assert report.overall["ours"].value == pytest.approx(math.log(1.2 * 0.8) / 3, abs=0.002)


@pytest.mark.parametrize("launches", [1, 2, 6])
def test_too_few_launches_are_never_a_verdict(launches):
    """A tenfold slowdown in few launches is UNDECIDED with the number that would decide
    despite an outlier. Without one 7 do: 2 / 2**7 <= 0.05 / 3."""
    run = small_run(1, speedup=0.1, launches=launches)
    for verdict in report_one(run).verdicts:
        assert verdict.outcome is Outcome.UNDECIDED
        assert verdict.launches == 14
        assert "14 launches would decide" in verdict.full_reason
    again = report_one(small_run(1, speedup=0.1, launches=7))
    assert set(outcomes_of(again.verdicts)) == {Outcome.SLOWER}


def test_a_file_that_was_extended_pays_for_the_earlier_look():
    """Intervals contain those of a file measured at once; p grows alike, and a caveat says so."""
    a, b = small_run(3), small_run(4)
    at_once, alone = report_two(a, b), report_one(a)
    a.settings.plan_launches(a.settings.launches + 5)
    again = report_two(a, b)
    codes = [caveat.code for caveat in again.caveats]
    assert "compared-before" in codes
    assert "compared-before" not in [caveat.code for caveat in at_once.caveats]
    for before, now in (
        *zip(at_once.comparisons, again.comparisons, strict=True),
        *zip(alone.comparisons, report_one(a).comparisons, strict=True),
    ):
        assert now.shift.low < before.shift.low
        assert now.shift.high > before.shift.high
        assert now.p_family == min(1, 2 * before.p_family)
        assert now.p_family <= 0.05 or now.shift.low <= 0 <= now.shift.high
    (whole,), (wider,) = at_once.overall.values(), again.overall.values()
    assert wider.low < whole.low
    assert wider.high > whole.high


def test_a_file_that_was_stopped_pays_for_each_look():
    """Launches that a budget lets through bit by bit are looks as those asked for one by one."""
    run = small_run(3, launches=40)
    plan, launches, earlier = plan_to_resume(run, Path("run.json")), run.launches, []
    for done in (0, 1, 3, 3, 12, 40, 40):  # at 3 twice: the second added nothing
        run.launches = launches[:done]
        forget_unfinished(run, plan)
        earlier.append(list(run.settings.earlier))
    # No verdict takes one launch, and a complete file needs no more.
    assert earlier == [[], [], [3], [3], [3, 12], [3, 12], [3, 12]]
    forget_unfinished(run, replace(plan, launches=60))
    assert run.settings.earlier == [3, 12, 40]
    assert "12 times as many comparisons" in report_one(run).caveats[0].message


def test_two_modes_are_undecided_with_that_reason():
    """A candidate that is now fast, now slow, is not judged by its average."""
    run = small_run(3, launches=40, between=0.06, noise=bimodal, within=0.0005)
    for launch in run.launches:  # SDPA is steady: the modes are the candidate's
        for result in launch.results:
            if result.candidate == "sdpa":
                result.timings[0].seconds = [1e-3 * (1 + 1e-4 * i) for i in range(4)]
    report = report_one(run)
    reasons = [verdict.reason for verdict in report.verdicts]
    outcomes = outcomes_of(report.verdicts)
    assert outcomes[0] is Outcome.UNDECIDED
    assert "two modes across launches" in reasons[0]
    assert [outcome_alone(one, report.tolerance) for one in report.comparisons] == outcomes


def test_modes_of_times_say_where_to_look_not_how_often_to_measure():
    """A ratio that is open while times have two modes gets no number of launches."""
    case = make_cases(1)[0]
    sides = (np.linspace(-0.05, 0.05, 20),)
    estimate = Estimate(
        Shift(0.0, -0.03, 0.03, 0.5), IntervalTerms(0.05), 0.5, False, (None,), anytime=False
    )
    pairing = Pairing(case, "ours", "sdpa", "wall", sides=sides, time_modes=True)
    verdict = judge(Comparison(pairing, estimate), 0.01)
    assert verdict.launches is None
    assert verdict.full_reason.endswith("find what sets the mode (clocks, placement, autotuning)")


def test_many_undecided_cases_are_a_line_with_launches_and_time():
    """One line for all of them, with the seconds that a launch of these cases took."""
    run = make_run(np.random.default_rng(1), cases=make_cases(60), launches=14, between=0.02)
    for launch in run.launches:
        launch.start_seconds = 4.0
        launch.case_seconds = {case.id: 0.1 for case in run.cases}
    report = report_one(run)
    open_ = [v.launches for v in report.verdicts if v.outcome is Outcome.UNDECIDED]
    assert len(open_) == 60
    (message,) = (note.message for note in frame.notes(report) if note.code == "UNDECIDED")
    found = re.search(
        r"and 59 more: .*about (\d+) launches .* of these 60, in ([0-9.]+) h", message
    )
    assert found, message
    launches, hours = map(float, found.groups())
    assert hours == round((launches - 14) * 10 / 3600, 1)


def test_cases_that_no_plan_decides_are_a_line_that_says_so():
    """Their reasons differ, the number does not."""
    run = small_run(2, launches=40, speedup=[1.005, 1.0, 1.002], between=0.1)
    report = report_one(run)
    assert {verdict.launches for verdict in report.verdicts} == {None}
    assert len({verdict.reason for verdict in report.verdicts}) == 2
    (message,) = (note.message for note in frame.notes(report) if note.code == "UNDECIDED")
    wide = "the intervals are too wide; more than 1000 launches would be needed"
    assert message.endswith(f"and 2 more: {wide}")


@pytest.mark.parametrize(
    ("needed", "said"),
    [
        ((30, 60, 50, 40, 70), "about 50 launches would decide 3 of these 5, in 80 s more"),
        ((None, 30, None, 20, 25), "about 30 launches would decide 3 of these 5, in 40 s more"),
        ((None, 30, None, 20, None), "more than 1000 launches would be needed for most of these 5"),
    ],
)
def test_the_launches_named_decide_most_of_all(needed, said):
    """More than half of the undecided, also of those that no plan decides; a file without the
    seconds of its cases has those of its launches, 2 s each."""
    report = report_one(make_run(np.random.default_rng(1), cases=make_cases(5), launches=10))
    verdicts = [
        Verdict(Outcome.UNDECIDED, f"reason {place}", launches=count, wide=True)
        for place, count in enumerate(needed)
    ]
    judged = list(zip(report.comparisons, verdicts, strict=True))
    open_ = SimpleNamespace(judged=judged, data=report.data, caveats=[])
    (note,) = frame.notes(open_)
    assert note.message.endswith(f"and 4 more: the intervals are too wide; {said}")


def test_the_least_number_of_launches_is_not_called_enough():
    """After each look the reason names those that give an interval at all, and no more."""
    report = report_one(make_pair(np.random.default_rng(1), cases=make_cases(1), launches=2))
    least = "2 launches are too few for any verdict; at least 6 launches are needed"
    assert report.verdicts[0].full_reason == least
    (message,) = (note.message for note in frame.notes(report) if note.code == "UNDECIDED")
    assert message.endswith(f"{least}, in 8 s more")  # of 2 s each


def test_modes_that_agree_do_not_hide_a_slowdown():
    """Ten times slower in either mode is SLOWER."""
    run = small_run(3, launches=40, between=0.06, noise=bimodal, within=0.0005, speedup=0.1)
    assert set(outcomes_of(report_one(run).verdicts)) == {Outcome.SLOWER}


def test_modes_of_two_files_say_whose_they_are():
    """The numbers are of the file's ratio to its control, not of B over A, and so it says."""
    case = make_cases(1)[0]
    sides = (np.full(12, 0.3), np.repeat([0.3, 0.35], 6))
    modes = (None, Modes(0.3, 0.35, 0.5))
    estimate = Estimate(
        Shift(0.025, -0.009, 0.06, 0.5), IntervalTerms(0.05), 0.5, False, modes, anytime=False
    )
    verdict = judge(Comparison(Pairing(case, "ours", "sdpa", "wall", sides=sides), estimate), 0.01)
    assert verdict.outcome is Outcome.UNDECIDED
    assert "B's speed-up over its control 1.350 in some, 1.419 in others" in verdict.reason


def test_modes_inside_the_tolerance_are_the_same():
    """Where no launch of either mode differs by more than the tolerance, nothing else does."""
    case = make_cases(1)[0]
    sides = (np.repeat([-0.008, 0.008], 10),)
    modes = Modes(-0.008, 0.008, 0.5)
    estimate = Estimate(
        Shift(0.0, -0.009, 0.009, 0.5), IntervalTerms(0.05), 0.5, False, (modes,), anytime=False
    )
    comparison = Comparison(Pairing(case, "ours", "sdpa", "wall", sides=sides), estimate)
    for tolerance, outcome in ((0.01, Outcome.SAME), (0.007, Outcome.UNDECIDED)):
        assert judge(comparison, tolerance).outcome is outcome
        assert outcome_alone(comparison, tolerance) is outcome


def _replace_result(run: RunFile, launch: int, case: int, candidate: str, new: Result) -> None:
    results = run.launches[launch].results
    for index, result in enumerate(results):
        if result.case == run.cases[case].id and result.candidate == candidate:
            results[index] = new


def _failed(run: RunFile, case: int, status: str, reason: str = "") -> Result:
    return Result(case=run.cases[case].id, candidate="ours", status=status, reason=reason)  # type: ignore[arg-type]


def test_one_wrong_launch_is_wrong():
    """A result that was wrong in one launch has no speed verdict, and fails the gate."""
    run = small_run(1)
    _replace_result(run, 5, 1, "ours", _failed(run, 1, "wrong", "max error 1.0 exceeds 0.1"))
    report = report_one(run)
    assert report.verdicts[1].outcome is Outcome.WRONG
    assert "max error" in report.verdicts[1].reason
    assert report.comparisons[1].shift is None
    assert exit_code(report.verdicts) is Exit.REGRESSION


def test_one_crashed_launch_leaves_the_others():
    """A crash costs its launch; the rest is compared, and the crash is reported."""
    run = small_run(1)
    _replace_result(run, 5, 1, "ours", _failed(run, 1, "crashed", "signal 11"))
    comparison = report_one(run).comparisons[1].pairing
    assert comparison.launches == (11,)
    assert comparison.partial is not None
    assert comparison.partial.status == "crashed"


def test_a_case_that_never_ran_is_not_measured():
    """Time-outs in every launch are exit 4, unless allowed."""
    run = small_run(1, between=0.001, within=0.001)
    for launch in range(12):
        _replace_result(run, launch, 1, "ours", _failed(run, 1, "timeout", "60 s"))
    verdicts = report_one(run).verdicts
    assert verdicts[1].outcome is Outcome.NOT_MEASURED
    assert exit_code(verdicts) is Exit.NOT_MEASURED
    assert exit_code(verdicts, ["not-measured"]) is Exit.PASS


@pytest.mark.parametrize(
    ("outcomes", "allow", "expected"),
    [
        ("FASTER SAME", "", Exit.PASS),
        ("SAME UNDECIDED", "", Exit.UNDECIDED),
        ("SAME UNDECIDED", "undecided", Exit.PASS),
        ("UNDECIDED NOT_MEASURED", "", Exit.NOT_MEASURED),
        ("UNDECIDED NOT_MEASURED", "undecided", Exit.NOT_MEASURED),
        ("UNDECIDED NOT_MEASURED", "not-measured", Exit.UNDECIDED),
        ("SLOWER NOT_MEASURED UNDECIDED", "undecided", Exit.REGRESSION),
        ("WRONG FASTER", "", Exit.REGRESSION),
        ("NOT_MEASURED", "not-measured", Exit.NOT_MEASURED),
        ("", "undecided", Exit.NOT_MEASURED),
    ],
)
def test_exit_codes(outcomes, allow, expected):
    """A regression beats not measured beats undecided; nothing compared never passes."""
    verdicts = [Verdict(Outcome[name], "") for name in outcomes.split()]
    assert exit_code(verdicts, allow.split()) is expected


def test_against_the_best_backend():
    """`best` is the fastest SDPA of each case; its family counts all that it could be."""
    run = small_run(1, cases=make_cases(2), backends=("sdpa:flash",), between=0.001, within=0.001)
    for launch in run.launches:
        for result in launch.results:
            if result.candidate == "sdpa:flash" and result.case == run.cases[1].id:
                result.timings[0].seconds = [s / 2 for s in result.timings[0].seconds]
    default, best = report_one(run), report_one(run, against="best")
    assert [c.pairing.against for c in best.comparisons] == ["sdpa", "sdpa:flash"]
    assert outcomes_of(default.verdicts) == [Outcome.SAME, Outcome.SAME]
    assert outcomes_of(best.verdicts) == [Outcome.SAME, Outcome.SLOWER]
    assert (
        best.comparisons[0].estimate.terms.alpha == default.comparisons[0].estimate.terms.alpha / 2
    )


def test_few_cases_say_what_correlated_launches_would_change():
    """A change just found would be undecided if launches resembled each other; a clear one not."""
    fragile = [caveat.code for caveat in report_one(small_run(1, speedup=0.99)).caveats]
    assert fragile == ["few-cases"]
    assert report_one(small_run(1, speedup=0.9)).caveats == []


def test_metric_that_was_not_measured():
    """A metric that the file lacks gives NOT MEASURED and names those it has."""
    report = report_one(small_run(1), metric="gpu_cold")
    assert {v.outcome for v in report.verdicts} == {Outcome.NOT_MEASURED}
    assert "it has wall" in report.verdicts[0].reason
    assert report.verdicts[0].detectable is None
