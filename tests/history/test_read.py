"""asv's results folder as a history: order of commits, series, controls, gaps, damage."""

import json
from pathlib import Path

import numpy as np
import pytest
from history.project import CASES, git, make_repository, measure, row, write_result

from flashbench.errors import InvalidInputError
from flashbench.history import commit_record
from flashbench.history.axis import axis
from flashbench.history.changes import FoundChanges
from flashbench.history.folder import machine_folders
from flashbench.history.read import read
from flashbench.history.report import HistoryReport
from flashbench.revisions import ledger
from flashbench.site.gather import gather
from flashbench.site.source import Source
from flashbench.views.history import document


@pytest.fixture
def project(tmp_path: Path) -> tuple[Path, list[str]]:
    """Six commits in a line, all measured but the third."""
    commits = make_repository(tmp_path, [f"Change {index}" for index in range(6)])
    measured = [commit for index, commit in enumerate(commits) if index != 2]
    measure(tmp_path / "results", measured, lambda index, case: 0.5)
    return tmp_path, commits


def test_series_have_their_control_and_ratio(project) -> None:
    """The kernel's series has SDPA and the ratio beside it, at the commits that were measured.

    Where the files kept no ratio by launch, it is that of the medians, and tables say so."""
    root, commits = project
    history = read(root / "results", axis(root))
    assert [one.id for one in history.commits] == commits
    assert [(one.case, one.candidate) for one in history.series] == [
        (case, name) for case in CASES for name in ("flashbench", "sdpa")
    ]
    kernel = history.series[0]
    assert kernel.points.commit.tolist() == [0, 1, 3, 4, 5]
    assert kernel.points.launches.tolist() == [9] * 5
    assert kernel.ratio is not None
    assert kernel.control is not None
    assert np.abs(kernel.ratio.value - 0.5).max() < 0.05
    assert np.all(
        (kernel.ratio.low <= kernel.ratio.value) & (kernel.ratio.value <= kernel.ratio.high)
    )
    assert kernel.control.value.tolist() == history.series[1].points.value.tolist()
    assert (kernel.unit, kernel.metric, kernel.machine) == ("seconds", "wall", "box")
    assert kernel.parameters == (("case", CASES[0]), ("candidate", "flashbench"))
    assert not kernel.of_medians
    for path in (root / "results" / "box").glob("*-*.json"):
        content = json.loads(path.read_text())
        del content["results"]["cpu.Ratio.track_ratio"]
        path.write_text(json.dumps(content))
    without = read(root / "results", axis(root))
    unpaired = without.series[0]
    assert unpaired.of_medians
    assert unpaired.control is not None
    assert unpaired.ratio is not None
    quotient = unpaired.points.value / unpaired.control.value
    assert unpaired.ratio.value.tolist() == quotient.tolist()
    assert np.isnan(unpaired.ratio.low).all()
    found = FoundChanges((None,), {})
    report = HistoryReport(without, [unpaired], found, frozenset(), "HEAD", 0.02, 0.05)
    header = document(report).header
    assert any("the ratio of the medians, without an interval" in line for line in header)


def test_merges_stand_for_what_they_merged(tmp_path: Path) -> None:
    """Along first parents a merge is one commit and names the others; all parents list each."""
    make_repository(tmp_path, ["One", "Two"])
    git(tmp_path, "reset", "-q", "--hard", "main")
    git(tmp_path, "checkout", "-q", "-b", "side", "main~1")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "Aside")
    aside = git(tmp_path, "rev-parse", "HEAD")
    git(tmp_path, "checkout", "-q", "main")
    git(tmp_path, "merge", "-q", "--no-ff", "-m", "Merge it", "side")
    line = axis(tmp_path)
    assert [one.subject for one in line] == ["One", "Two", "Merge it"]
    assert line[2].merged == (aside,)
    everything = axis(tmp_path, first_parent=False)
    assert {one.subject for one in everything} == {"One", "Two", "Aside", "Merge it"}
    for place, one in enumerate(everything):
        assert all(
            parent in {earlier.id for earlier in everything[:place]} for parent in one.parents
        )
    measure(tmp_path / "results", [aside, "e" * 40], lambda index, case: 1.0)
    hint = read(tmp_path / "results", line).off_axis_hint
    assert hint == "; 1 on merged branches, which --all-parents shows"
    assert read(tmp_path / "results", everything).off_axis_hint == ""


def test_commits_of_other_lines_are_told_apart(project) -> None:
    """Results of a commit that the axis does not have are counted, not drawn."""
    root, commits = project
    history = read(root / "results", axis(root, commits[3]))
    assert set(history.off_axis) == set(commits[4:])
    assert history.series[0].points.commit.tolist() == [0, 1, 3]


def test_reasons_of_failed_builds_are_gaps(project) -> None:
    """What asv's environment recorded, and what the caller knows, say why a commit has nothing."""
    root, commits = project
    path = commit_record.path_of(root / "results", "box", commits[2], "flashbench-py3.11")
    path.parent.mkdir(parents=True)
    status = {"status": "missing header", "reason": "no build_config.h", "key": "", "toolchain": {}}
    kept = {
        "commit": commits[2],
        "environment": "flashbench-py3.11",
        "status": "missing header",
        "failure": "missing header: no build_config.h",
        "build": status | {"source_hash": ""},
        "proof": {"holds": False, "reason": "of an older version"},
    }
    path.write_text(json.dumps(kept))
    (result,) = (root / "results" / "box").glob(f"{commits[4][:8]}-*.json")
    result.unlink()
    history = read(root / "results", axis(root), failed={commits[4]: "link error: no symbol x"})
    first, second = history.gaps
    assert (first.commit, first.machine, first.status) == (2, "box", "missing header")
    assert first.reason == "no build_config.h"
    assert (second.commit, second.machine) == (4, "")
    assert (second.status, second.reason) == ("link error", "no symbol x")


def test_records_are_inside_of_a_named_results_folder(tmp_path: Path) -> None:
    """Beside it lie strange folders, such as a package named flashbench; where an older version
    wrote there they are read, and asv's own folder has them where it always had."""
    results = tmp_path / "results"
    (tmp_path / "flashbench" / "cli").mkdir(parents=True)
    assert (
        commit_record.path_of(results, "box", "a", "e")
        == results / ".flashbench" / "box" / "a-e.json"
    )
    (tmp_path / "flashbench" / "box").mkdir()
    assert commit_record.path_of(results, "box", "a", "e").parent == tmp_path / "flashbench" / "box"
    usual = tmp_path / ".asv" / "results"
    assert (
        commit_record.path_of(usual, "box", "a", "e").parent
        == tmp_path / ".asv" / "flashbench" / "box"
    )
    (results / "box").mkdir(parents=True)
    (results / ".flashbench" / "box").mkdir(parents=True)
    assert machine_folders(results, None) == [results / "box"]


def test_what_a_machine_has_measured_is_no_gap_there(project) -> None:
    """A commit that does not build here keeps its numbers of another machine, and is a gap of
    those alone that have none of it."""
    root, commits = project
    told = {commits[1]: "compile error: no avx512", commits[2]: "link error: no symbol x"}
    results = root / "results"
    (gap,) = read(results, axis(root), failed=told).gaps
    assert (gap.commit, gap.machine) == (2, "")
    (path,) = (results / "box").glob(f"{commits[0][:8]}-*.json")
    (results / "old").mkdir()
    path.rename(results / "old" / path.name)
    first, second = read(results, axis(root), failed=told).gaps
    assert (first.commit, first.machine, first.status) == (1, "old", "compile error")
    assert first.reason == "no avx512"
    assert (second.commit, second.machine) == (2, "")
    assert not read(results, axis(root), failed={commits[1]: "link error"}, machine="box").gaps


def test_a_failure_is_told_once_on_the_site(project, tmp_path, monkeypatch) -> None:
    """What the build cache and a machine's record both say is one failure of every machine, with
    the reason in full; a machine's other failure stays its own."""
    root, commits = project
    (measured,) = (root / "results" / "box").glob(f"{commits[4][:8]}-*.json")
    measured.unlink()
    monkeypatch.setenv("FLASHBENCH_CACHE", str(tmp_path / "cache"))
    for place, status in ((2, "link error"), (4, "wrong result")):
        commit = commits[place]
        tried = ledger.RevisionOutcome(
            commit=commit,
            status="link error",
            reason="no symbol x\n  in y.o",
            stage="build",
            build="key",
            toolchain="tools",
        )
        ledger.record(tmp_path / "cache" / "builds", root, tried)
        build = {"status": "built", "reason": "", "key": "", "toolchain": {}, "source_hash": ""}
        kept = {"commit": commit, "environment": "e", "status": status, "build": build}
        path = commit_record.path_of(root / "results", "box", commit, "e")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(kept | {"failure": f"{status}: no symbol x\n  in y.o"}))
    gaps = gather(Source(root, root / "results")).history.gaps
    assert [(gap.commit, gap.machine, gap.status) for gap in gaps] == [
        (2, "", "link error"),
        (4, "", "link error"),
        (4, "box", "wrong result"),
    ]
    assert gaps[0].reason == "no symbol x\n  in y.o"


def test_failures_of_the_build_cache_are_gaps_of_the_site(project, tmp_path, monkeypatch) -> None:
    """A commit that `flashbench build` could not build is marked in what publish shows."""
    root, commits = project
    monkeypatch.setenv("FLASHBENCH_CACHE", str(tmp_path / "cache"))
    tried = ledger.RevisionOutcome(
        commit=commits[2],
        status="link error",
        reason="no symbol x",
        stage="build",
        build="key",
        toolchain="tools",
    )
    ledger.record(tmp_path / "cache" / "builds", root, tried)
    (gap,) = gather(Source(root, root / "results")).history.gaps
    assert (gap.commit, gap.status, gap.reason) == (2, "link error", "no symbol x")


def test_failed_and_skipped_results_are_told_apart(tmp_path: Path) -> None:
    """asv's null is a failure at that commit; its NaN is nothing at all."""
    (commit,) = make_repository(tmp_path, ["One"])
    values = row([["a", "b", "c"]], [[1.0], [2.0], [3.0]])
    values[0] = [1.0, None, float("nan")]
    write_result(tmp_path / "results", commit, {"bench.track_size": values})
    history = read(tmp_path / "results", axis(tmp_path))
    assert [one.points.value.tolist() for one in history.series] == [[1.0], [], []]
    assert [one.failed.tolist() for one in history.series] == [[], [0], []]
    assert [one.name for one in history.series] == [f"bench.track_size({x})" for x in "abc"]
    assert np.isnan(history.series[0].points.low[0])  # one sample has no interval
    assert history.series[0].points.launches[0] == 0  # of others' files nobody knows


def test_the_version_of_the_benchmark_decides(tmp_path: Path) -> None:
    """Results of another version than in benchmarks.json are skipped and reported."""
    old, new = make_repository(tmp_path, ["One", "Two"])
    for commit, version in ((old, "1"), (new, "2")):
        values = row([], [[1.0]])
        values[2] = version
        write_result(tmp_path / "results", commit, {"bench.time_it": values})
    described = {"bench.time_it": {"unit": "seconds", "version": "1"}, "version": 2}
    (tmp_path / "results" / "benchmarks.json").write_text(json.dumps(described))
    history = read(tmp_path / "results", axis(tmp_path))
    assert history.series[0].points.commit.tolist() == [0]
    assert history.series[0].unit == "seconds"
    assert any("other versions" in note for note in history.notes)
    (tmp_path / "results" / "benchmarks.json").unlink()
    assert read(tmp_path / "results", axis(tmp_path)).series[0].points.commit.tolist() == [1]


DAMAGE = {
    "cut short": b'{"commit_hash": "abc',
    "nested": b"[" * 100_000,
    "no object": b"[]",
    "binary": bytes(range(256)),
    "another schema": b'{"version": 1}',
    "a text for a number": None,
    "too few numbers": None,
    "endless parameters": None,
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_file_hides_no_other(project, kind: str) -> None:
    """One file that cannot be read is reported; the others are read."""
    root, commits = project
    (path,) = (root / "results" / "box").glob(f"{commits[4][:8]}-*.json")
    content = json.loads(path.read_text())
    values = content["results"]["cpu.Ratio.track_ratio"]
    if kind == "a text for a number":
        values[0][0] = "fast"
    elif kind == "too few numbers":
        values[0].pop()
    elif kind == "endless parameters":
        values[0], values[1] = None, [["'x'"] * 1000] * 6
    path.write_bytes(DAMAGE[kind] or json.dumps(content).encode())
    history = read(root / "results", axis(root))
    assert history.series[0].points.commit.tolist() == [0, 1, 3, 5]
    (note,) = history.notes
    assert str(path) in note


def test_where_nothing_is_the_way_out_is_told(tmp_path: Path) -> None:
    """No folder, and no such machine, are errors with the fix."""
    make_repository(tmp_path, ["One"])
    with pytest.raises(InvalidInputError, match="asv run"):
        read(tmp_path / "results", axis(tmp_path))
    (tmp_path / "results" / "box").mkdir(parents=True)
    with pytest.raises(InvalidInputError, match="there is box"):
        read(tmp_path / "results", axis(tmp_path), machine="other")
