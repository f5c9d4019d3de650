"""Comparisons of two run files, in memory."""

import copy
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import TURNED, make_cases, outcomes_of, small_run

from flashbench.errors import Exit, InvalidInputError
from flashbench.outcome import Outcome
from flashbench.render import render
from flashbench.report import report_two
from flashbench.runfile import Candidate, DeviceState, RunFile
from flashbench.verdict import exit_code
from flashbench.views import speedup


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.sampled_from([0.9, 0.97, 1.0, 1.03, 1.2]))
def test_swapping_the_files_turns_the_verdicts(seed, speedup):
    """What is FASTER from A to B is SLOWER from B to A, and the ratio is the inverse."""
    a, b = small_run(seed), small_run(seed + 1, speedup=speedup)
    there, back = report_two(a, b), report_two(b, a)
    assert outcomes_of(there.verdicts) == [
        TURNED.get(outcome, outcome) for outcome in outcomes_of(back.verdicts)
    ]
    for one, other in zip(there.comparisons, back.comparisons, strict=True):
        assert one.shift is not None
        assert other.shift is not None
        assert one.shift.value == pytest.approx(-other.shift.value)


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.floats(0.001, 0.2))
def test_a_file_against_itself(seed, between):
    """Identical files are SAME or UNDECIDED, never FASTER or SLOWER."""
    run = small_run(seed, between=between)
    outcomes = outcomes_of(report_two(run, run).verdicts)
    assert set(outcomes) <= {Outcome.SAME, Outcome.UNDECIDED}


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.sampled_from([1e-6, 3.0, 1e4]))
def test_a_machine_slower_throughout_changes_nothing(seed, factor):
    """Multiplying all times of B, SDPA's too, leaves every speed-up and verdict as it was."""
    a = small_run(seed)
    b, slower = (
        small_run(seed + 1, speedup=1.02, baseline_seconds=x) for x in (1e-3, 1e-3 * factor)
    )
    plain, scaled = report_two(a, b), report_two(a, slower)
    assert outcomes_of(plain.verdicts) == outcomes_of(scaled.verdicts)
    for one, other in zip(plain.comparisons, scaled.comparisons, strict=True):
        assert one.shift is not None
        assert other.shift is not None
        assert one.shift.value == pytest.approx(other.shift.value, abs=1e-9)


def test_a_case_missing_in_b_is_not_measured():
    """Dropping a case from the grid does not pass the gate; a new case is only reported."""
    a, b = small_run(1), small_run(2, cases=make_cases(2))
    assert exit_code(report_two(a, b).verdicts) is Exit.NOT_MEASURED
    codes = [caveat.code for caveat in report_two(b, a).caveats]
    assert "new-cases" in codes


def test_files_that_cannot_be_compared_are_refused():
    """Nothing in common, no SDPA, another machine: one line each, nothing compared."""
    a = small_run(1)
    with pytest.raises(InvalidInputError, match="no case in common"):
        report_two(a, small_run(1, cases=make_cases(3, dtypes=("bf16",))))
    two = small_run(1)
    two.candidates.append(replace_name(two, "other"))
    with pytest.raises(InvalidInputError, match="no candidate in common"):
        report_two(two, rename(small_run(2), "third"))
    no_control = small_run(2)
    for candidate in no_control.candidates:
        candidate.baseline, candidate.spec = False, "flashbench"
    with pytest.raises(InvalidInputError, match="the second run file has no baseline"):
        report_two(a, no_control)
    elsewhere = small_run(2)
    elsewhere.environment.cpu = "Another CPU"
    with pytest.raises(InvalidInputError, match="different-machine"):
        report_two(a, elsewhere)
    allowed = report_two(a, elsewhere, allow=["different-machine"])
    assert [caveat.code for caveat in allowed.caveats] == ["machine"]


def test_what_may_move_the_control_is_told():
    """Two files whose clocks differ, and whose SDPA changed: a candidate need not follow alike."""
    a, b, slow = small_run(1), small_run(2), small_run(2, baseline_seconds=1.1e-3)
    for run, clock in ((a, 1980), (b, 1950), (slow, 1755)):
        for launch in run.launches:
            launch.after = DeviceState(sm_clock_mhz=clock)
    assert report_two(a, b).caveats == []
    found = {caveat.code: caveat.message for caveat in report_two(a, slow).caveats}
    assert found.keys() == {"clock", "control-moved"}
    assert "1980 MHz in A and 1755 MHz in B" in found["clock"]
    assert "more than 1 % in 3 of 3 comparisons (at the median 0.9" in found["control-moved"]


def test_a_candidate_that_is_missing_in_b_is_not_measured():
    """A gate does not pass where B has lost one of two candidates."""
    a = small_run(1)
    a.candidates.append(replace_name(a, "other"))
    for launch in a.launches:
        for result in [one for one in launch.results if one.candidate == "ours"]:
            launch.results.append(copy.copy(result))
            launch.results[-1].candidate = "other"
    report = report_two(a, small_run(2))
    assert outcomes_of(report.verdicts)[3:] == [Outcome.NOT_MEASURED] * 3
    assert {c.candidate for c in report.comparisons[3:]} == {"other"}
    assert "the candidate is not in the second run file" in report.verdicts[-1].reason
    assert exit_code(report.verdicts) is Exit.NOT_MEASURED
    for output_format in ("text", "markdown", "csv", "json", "github", "junit"):
        assert "other" in render(speedup.document(report), output_format)


def replace_name(run: RunFile, name: str) -> Candidate:
    """A second candidate like the first."""
    candidate = copy.copy(run.candidates[0])
    candidate.name = name
    return candidate


def rename(run: RunFile, name: str) -> RunFile:
    """The run with its candidate called `name`."""
    run.candidates[0].name = name
    for launch in run.launches:
        for result in launch.results:
            if result.candidate == "ours":
                result.candidate = name
    return run


def test_single_candidates_are_compared_whatever_their_names():
    """`--candidate old=...` in A is compared with `new=...` in B."""
    a, b = rename(small_run(1), "old"), rename(small_run(2, speedup=0.5), "new")
    report = report_two(a, b)
    assert {c.candidate for c in report.comparisons} == {"new"}
    assert set(outcomes_of(report.verdicts)) == {Outcome.SLOWER}


def test_the_machine_is_told_apart():
    """SDPA's own shift between two files is the machine's, reported, and not the build's."""
    a = small_run(1, between=0.001, within=0.001)
    b = small_run(2, between=0.001, within=0.001, baseline_seconds=1.5e-3)
    report = report_two(a, b)
    assert set(outcomes_of(report.verdicts)) == {Outcome.SAME}
    for comparison in report.comparisons:
        assert comparison.pairing.machine is not None
        assert comparison.pairing.machine.value == pytest.approx(-math.log(1.5), abs=0.01)
