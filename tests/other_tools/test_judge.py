"""The gate on other tools' files: the same statistics, and what may not be said."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from flashbench.errors import InvalidInputError, NotMeasuredError
from flashbench.other_tools.judge import report_other_tools
from flashbench.outcome import Outcome
from flashbench.stats.shift import unpaired_shift

INPUTS = Path(__file__).parent / "inputs"
CASE = "b1-h2-q64-d32-fp32-causal-cpu"


def judged(a, b=None, **changes):
    options = {"metric": None, "against": "sdpa", "tolerance": 0.01, "alpha": 0.05}
    return report_other_tools(a, b, **(options | changes))


def _codes(found):
    return [caveat.code for caveat in found.report.caveats]


def test_pyperf_gets_full_verdicts():
    """Runs are launches: the unpaired rank interval at the family's level decides."""
    found = judged(INPUTS / "pyperf_a.json", INPUTS / "pyperf_b.json")
    by_name = dict(zip([p.name for p in found.matches], found.report.comparisons, strict=True))
    pair = next(p for p in found.matches if p.name == "sorted")
    expected = unpaired_shift(-np.log(pair.a.times.values), -np.log(pair.b.times.values), 0.05 / 2)
    assert by_name["sorted"].shift == expected
    outcomes = {
        p.name: v.outcome for p, v in zip(found.matches, found.report.verdicts, strict=True)
    }
    assert outcomes["sorted"] is Outcome.SLOWER
    assert _codes(found) == ["no-control"]


@pytest.mark.parametrize(
    ("a", "b", "lacks"),
    [
        ("pytest_a.json", "pytest_a.json", "one process: its samples are not launches"),
        ("pytest_b.json", "pytest_b.json", "no raw samples, only statistics; one process"),
        ("asv/box/a.json", "asv/box/a.json", "asv does not record which process"),
    ],
)
def test_what_a_file_lacks_is_the_reason(a, b, lacks):
    """Without launches there is no verdict; the reason names what is missing, and both times are
    shown."""
    found = judged(INPUTS / a, INPUTS / b)
    compared = [
        (pair, verdict)
        for pair, verdict in zip(found.matches, found.report.verdicts, strict=True)
        if verdict.outcome is not Outcome.NOT_MEASURED
    ]
    assert compared
    assert all(verdict.outcome is Outcome.UNDECIDED for _, verdict in compared)
    assert any(lacks in verdict.reason for _, verdict in compared)
    assert all("too few" in verdict.reason for _, verdict in compared)
    assert all(len(pair.a.times) and len(pair.b.times) for pair, _ in compared)


def test_sdpa_beside_them_is_the_control():
    """Files of the pytest plugin are compared over SDPA, whatever the machine does to both."""
    found = judged(INPUTS / "plugin_a", INPUTS / "plugin_b")
    assert [v.outcome for v in found.report.verdicts] == [Outcome.SLOWER] * 2
    assert all(comparison.pairing.machine is not None for comparison in found.report.comparisons)
    assert "no-control" not in _codes(found)


def test_a_slower_machine_is_no_slower_kernel(tmp_path):
    """A machine at half the speed in B slows SDPA too: nothing is called slower."""
    for file in (INPUTS / "plugin_a").glob("*.json"):
        content = json.loads(file.read_text())
        for benchmark in content["benchmarks"]:
            stats = benchmark["stats"]
            stats["data"] = [2 * seconds for seconds in stats["data"]]
            stats["median"] *= 2
        (tmp_path / file.name).write_text(json.dumps(content))
    found = judged(INPUTS / "plugin_a", tmp_path)
    for comparison, verdict in zip(found.report.comparisons, found.report.verdicts, strict=True):
        assert comparison.shift.value == pytest.approx(0, abs=1e-9)
        assert comparison.pairing.machine.value == pytest.approx(np.log(0.5))
        assert verdict.outcome in (Outcome.SAME, Outcome.UNDECIDED)


def test_one_side_is_ours():
    """A run file and files of the pytest plugin meet in the case and the candidate's name."""
    found = judged(INPUTS / "ours.json", INPUTS / "plugin_b")
    assert found.matches[0].name == CASE
    assert [v.outcome for v in found.report.verdicts] == [Outcome.SLOWER] * 2
    assert all(pair.controlled for pair in found.matches)


def test_one_candidate_a_side_needs_no_common_name():
    """asv's `kernel` is our `mine` where each is the only candidate; too few launches for asv."""
    found = judged(
        INPUTS / "asv" / "box" / "a.json", INPUTS / "ours.json", allow=["different-machine"]
    )
    ((pair, verdict),) = zip(found.matches, found.report.verdicts, strict=True)
    assert (pair.a.candidate, pair.b.candidate) == ("kernel", "mine")
    assert verdict.outcome is Outcome.UNDECIDED
    assert _codes(found) == ["machine", "not-compared", "not-compared"]


def test_one_folder_against_its_sdpa():
    """A folder of the pytest plugin alone: each candidate against SDPA, paired by process."""
    found = judged(INPUTS / "plugin_a")
    assert [v.outcome for v in found.report.verdicts] == [Outcome.SLOWER] * 2
    assert all(len(comparison.pairing.sides) == 1 for comparison in found.report.comparisons)


def test_one_file_without_sdpa():
    """A file alone that holds no SDPA has nothing to be compared with."""
    with pytest.raises(NotMeasuredError, match="no baseline"):
        judged(INPUTS / "pyperf_a.json")


def test_a_wrong_result_of_ours_is_wrong(tmp_path):
    """A wrong result in our run file is no speed, whatever the other side is."""
    content = json.loads((INPUTS / "ours.json").read_text())
    for result in content["launches"][0]["results"]:
        if (result["case"], result["candidate"]) == (CASE, "mine"):
            result |= {"status": "wrong", "reason": "max error 1", "timings": []}
    bad = tmp_path / "bad.json"
    bad.write_text(json.dumps(content, separators=(",", ":")))
    found = judged(INPUTS / "plugin_a", bad)
    outcomes = {
        p.name: v.outcome for p, v in zip(found.matches, found.report.verdicts, strict=True)
    }
    assert outcomes[CASE] is Outcome.WRONG


def test_different_machines_are_refused():
    """Times of different CPUs are compared only on request."""
    sides = INPUTS / "asv" / "box" / "a.json", INPUTS / "ours.json"
    with pytest.raises(InvalidInputError, match="the CPU differs"):
        judged(*sides)
    assert "machine" in _codes(judged(*sides, allow=["different-machine"]))


def test_nothing_in_common():
    """Two files without a common benchmark are an error, not an empty pass."""
    with pytest.raises(InvalidInputError, match="no benchmark in common"):
        judged(INPUTS / "pyperf_a.json", INPUTS / "pytest_a.json")


def test_two_run_files_are_not_for_here():
    """Our run files are handled as ever, and so is anything that is not a result file."""
    ours = INPUTS / "ours.json"
    assert judged(ours, ours) is None
    assert judged(Path(__file__)) is None
    assert judged(INPUTS / "nowhere.json") is None


def test_a_unit_that_differs(tmp_path):
    """Bytes in A and a bare number in B are not compared."""
    content = json.loads((INPUTS / "pyperf_b.json").read_text())
    content["metadata"]["unit"] = "byte"
    for benchmark in content["benchmarks"]:
        benchmark["metadata"]["unit"] = "byte"
    other = tmp_path / "b.json"
    other.write_text(json.dumps(content))
    found = judged(INPUTS / "pyperf_a.json", other)
    assert {v.outcome for v in found.report.verdicts} == {Outcome.NOT_MEASURED}
    assert "the unit differs: seconds in A, bytes in B" in found.report.verdicts[0].reason


def test_a_metric_that_is_not_there():
    """--metric asks for one of ours; a file of another is refused by name."""
    with pytest.raises(InvalidInputError, match="no gpu_warm times; it has wall"):
        judged(INPUTS / "plugin_a", INPUTS / "plugin_b", metric="gpu_warm")


def test_neither_torch_nor_pytest_is_imported():
    """Other tools' files are read without them, and without the tools."""
    program = (
        "import sys; from flashbench.cli import cli\n"
        f"cli.main(['compare', {str(INPUTS / 'plugin_a')!r}, {str(INPUTS / 'plugin_b')!r}],"
        " standalone_mode=False)\n"
        "names = ('torch', 'scipy', 'rich', 'pytest', 'pyperf', 'asv', 'pytest_benchmark')\n"
        "print([name for name in names if name in sys.modules])"
    )
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert out.stdout.splitlines()[-1] == "[]"
