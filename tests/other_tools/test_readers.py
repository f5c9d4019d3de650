"""What the readers make of files that the real tools wrote (inputs/, make_inputs.py)."""

import json
from pathlib import Path

import numpy as np
import pytest

from flashbench.errors import InvalidInputError
from flashbench.other_tools.detect import Kind, is_other_tools, opened
from flashbench.other_tools.read import read

INPUTS = Path(__file__).parent / "inputs"
CASE = "b1-h2-q64-d32-fp32-causal-cpu"


def _by_name(path):
    return {series.name: series for series in read(path).benchmarks}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("pyperf_a.json", Kind.PYPERF),
        ("pytest_a.json", Kind.PYTEST),
        ("asv/box/a.json", Kind.ASV),
        ("asv/box/machine.json", Kind.ASV_OTHER),
        ("asv/benchmarks.json", Kind.ASV_OTHER),
        ("ours.json", Kind.OURS),
    ],
)
def test_the_content_tells_the_tool(name, kind, tmp_path):
    """A file is known whatever it is called."""
    renamed = tmp_path / "data"
    renamed.write_bytes((INPUTS / name).read_bytes())
    assert opened(renamed)[0] is kind
    assert is_other_tools(renamed) == (kind in (Kind.PYPERF, Kind.PYTEST, Kind.ASV))


def test_a_run_of_pyperf_is_a_launch():
    """Every run with values counts once, with their median; calibration and warm-ups do not."""
    series = _by_name(INPUTS / "pyperf_a.json")["sorted"]
    (benchmark,) = (
        b
        for b in json.loads((INPUTS / "pyperf_a.json").read_text())["benchmarks"]
        if b["metadata"]["name"] == "sorted"
    )
    runs = [run["values"] for run in benchmark["runs"] if "values" in run]
    assert len(benchmark["runs"]) > len(runs) == 8  # the others calibrated
    assert series.times.values.tolist() == [float(np.median(values)) for values in runs]
    assert [launch.tolist() for launch in series.samples] == runs
    assert not series.lacks


def test_a_file_of_pytest_benchmark_is_one_launch():
    """Samples of one process are one number, and without samples it is the stated median."""
    with_samples = _by_name(INPUTS / "pytest_a.json")["test_toy.py::test_sum[100]"]
    without = _by_name(INPUTS / "pytest_b.json")["test_toy.py::test_sum[100]"]
    assert with_samples.times.values.tolist() == [float(np.median(with_samples.samples[0]))]
    stated = json.loads((INPUTS / "pytest_b.json").read_text())["benchmarks"][0]["stats"]
    assert without.times.values.tolist() == [stated["median"]]
    assert without.samples == ()
    assert with_samples.lacks == ("one process: its samples are not launches",)
    assert without.lacks == ("no raw samples, only statistics", *with_samples.lacks)


def test_asv_parameters_units_and_failures():
    """Parameters are written out, units come from benchmarks.json, null and NaN say why."""
    series = _by_name(INPUTS / "asv" / "box" / "a.json")
    plain = series["toy.Suite.time_sum(10, 'list')"]
    assert plain.unit == "seconds"
    assert len(plain.samples[0]) > 1
    assert series["toy.Plain.mem_list"].unit == "bytes"
    assert series["toy.Plain.track_ratio"].unit == "times"
    failed = series["toy.Suite.time_fails(100, 'list')"].failure
    assert failed.reason == "asv has no result (failed)"
    assert series["toy.Suite.time_sum(100, 'tuple')"].failure.reason == "asv skipped it (NaN)"
    assert "above 0" in series["toy.Plain.track_negative"].failure.reason
    assert "any of its parameters" in series["toy.Plain.time_broken"].failure.reason


def test_a_lone_null_is_of_all_parameters(tmp_path):
    """asv writes one null for several combinations where none of them has a result."""
    content = json.loads((INPUTS / "asv" / "box" / "a.json").read_text())
    content["result_columns"] = ["result", "params"]
    content["results"] = {"m.time_x": [[None], [["1", "2"]]], "m.time_y": [[1.0], []]}
    path = tmp_path / "a.json"
    path.write_text(json.dumps(content))
    found = _by_name(path)
    assert "any of its parameters" in found["m.time_x"].failure.reason
    assert found["m.time_y"].times.values.tolist() == [1.0]


def test_units_without_benchmarks_json(tmp_path):
    """A lone asv file has the units of asv's prefixes, and none for tracked values."""
    lone = tmp_path / "a.json"
    lone.write_bytes((INPUTS / "asv" / "box" / "a.json").read_bytes())
    series = _by_name(lone)
    assert series["toy.Suite.time_sum(10, 'list')"].unit == "seconds"
    assert series["toy.Plain.mem_list"].unit == "bytes"
    assert series["toy.Plain.track_ratio"].unit == ""


def test_asv_says_case_and_candidate():
    """A case id among the parameters is the case, the other parameter the candidate."""
    series = _by_name(INPUTS / "asv" / "box" / "a.json")
    kernel = series[f"toy.Attention.track_seconds('{CASE}', 'kernel')"]
    sdpa = series[f"toy.Attention.track_seconds('{CASE}', 'sdpa')"]
    assert (kernel.case, kernel.candidate, kernel.baseline) == (CASE, "kernel", False)
    assert sdpa.baseline
    ratio = sdpa.times.values[0] / kernel.times.values[0]
    assert np.exp(kernel.speedups.values) == pytest.approx([ratio])


def test_a_folder_is_launches():
    """Each file of a folder is a launch, with the SDPA of its own process beside it."""
    folder = read(INPUTS / "plugin_a")
    assert folder.launches == folder.files == 7
    mine = next(s for s in folder.benchmarks if (s.case, s.candidate) == (CASE, "mine"))
    sdpa = folder.control(CASE, "wall")
    assert mine.times.numbers.tolist() == list(range(7))
    assert not mine.lacks
    expected = np.log(sdpa.times.values) - np.log(mine.times.values)
    assert mine.speedups.values == pytest.approx(expected)


def test_a_launch_that_lacks_a_benchmark_is_told(tmp_path):
    """A test that failed in one process leaves the others, and a note."""
    for file in (INPUTS / "plugin_a").glob("*.json"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    content = json.loads((tmp_path / "3.json").read_text())
    content["benchmarks"] = [b for b in content["benchmarks"] if "mine" not in b["fullname"]]
    (tmp_path / "3.json").write_text(json.dumps(content))
    mine = next(s for s in read(tmp_path).benchmarks if (s.case, s.candidate) == (CASE, "mine"))
    assert mine.times.numbers.tolist() == [0, 1, 2, 4, 5, 6]
    assert mine.partial.launches == 1


@pytest.mark.parametrize(
    ("names", "what"),
    [
        (["pyperf_a.json", "pytest_a.json"], "tool"),
        (["asv/box/a.json", "asv/box/b.json"], "commit"),
    ],
)
def test_a_folder_holds_one_thing(names, what, tmp_path):
    """Files of two tools or two commits are no launches of one build."""
    for index, name in enumerate(names):
        (tmp_path / f"{index}.json").write_bytes((INPUTS / name).read_bytes())
    with pytest.raises(InvalidInputError, match=f"more than one {what}"):
        read(tmp_path)


def test_an_empty_folder(tmp_path):
    """A folder without result files is said to have none."""
    with pytest.raises(InvalidInputError, match="no result files"):
        read(tmp_path)


def test_asv_folder_skips_machine_json(tmp_path):
    """What asv keeps beside its results is no result, and no error."""
    for name in ("a.json", "machine.json"):
        (tmp_path / name).write_bytes((INPUTS / "asv" / "box" / name).read_bytes())
    assert read(tmp_path).files == 1


def test_our_run_file_has_its_launches():
    """A run file of ours keeps every launch, and the speed-ups of its A/B/B/A blocks."""
    mine = next(s for s in read(INPUTS / "ours.json").benchmarks if s.candidate == "mine")
    assert len(mine.times) == len(mine.speedups) == 7
