"""Run files in asv's results: numbers, commit, machine, and refusals."""

import json
import multiprocessing
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from history.project import make_repository
from msgspec import structs
from synthetic import make_cases, make_run

from flashbench.cost.money import DevicePrice
from flashbench.cost.spent import Spent
from flashbench.errors import InvalidInputError, NotMeasuredError
from flashbench.figures.figure import Figure
from flashbench.history import to_asv as keeping
from flashbench.history.axis import axis
from flashbench.history.model import History
from flashbench.history.names import candidate_of, series_of
from flashbench.history.read import read
from flashbench.history.to_asv import keep
from flashbench.launches import launch_data
from flashbench.revisions import Project
from flashbench.runfile import BuildIdentity, Candidate, Ceilings, Pair, RunFile, save
from flashbench.site.latest import latest_tables
from flashbench.stats.quantile import launch_quantile, samples_needed


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_repository(tmp_path, ["One", "Two"])
    return tmp_path


def run_of(root: Path, seed: int = 0, *, cases: int = 2, **options: Any) -> RunFile:
    """A run file of the last commit, measured on the host `box`."""
    run = make_run(
        np.random.default_rng(seed),
        cases=make_cases(3)[:cases],
        launches=10,
        candidate="flashbench",
        **options,
    )
    run.environment.hostname, run.environment.python = "box", "3.11.9"
    run.candidates[0].build.commit = axis(root)[-1].id
    return run


def kept(root: Path, *runs: RunFile, **options: Any) -> History:
    for run in runs:
        keep(run, "run.json", root / "results", root, **options)
    return read(root / "results", axis(root))


def content_of(root: Path) -> dict[str, Any]:
    (path,) = (root / "results" / "box").glob("*-run-py3.11.json")
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def test_a_sample_is_the_median_of_a_launch(root: Path) -> None:
    """asv's samples are the launches' medians and ratios, at the commit, as flashbench has them."""
    run = run_of(root, speedup=2.0, metrics=("wall", "gpu_cold"))
    history = kept(root, run)
    data = launch_data(run, "wall")
    row = content_of(root)["results"]["cpu.Seconds.track_seconds"]
    assert row[1] == [[repr(case.id) for case in run.cases], ["'flashbench'", "'sdpa'"]]
    assert row[-1][0] == pytest.approx(np.exp(data.log_median[0, 0]), rel=1e-8)
    ratios = content_of(root)["results"]["cpu.Ratio.track_ratio"]
    assert ratios[-1][1] == pytest.approx(np.exp(-data.speedups(0, 1)[1]), rel=1e-8)
    series = next(one for one in history.series if one.metric == "wall" and one.ratio)
    assert series.points.commit.tolist() == [1]
    assert series.points.launches.tolist() == [10]
    assert series.points.low[0] < series.points.value[0] < series.points.high[0]
    assert series.ratio is not None
    assert series.ratio.value[0] == pytest.approx(0.5, rel=0.02)
    assert {one.metric for one in history.series} == {"wall", "gpu_cold"}


@pytest.mark.parametrize("samples", [2, 8, 40])
def test_percentiles_are_of_all_samples_where_there_are_enough(root: Path, samples: int) -> None:
    """p90 from 36 samples on and p99 from 368, as the percentiles of `show`; else unknown."""
    run = run_of(root, samples=samples)
    (kernel, *_) = kept(root, run).series
    launches = launch_data(run, "wall").samples(0, 0)
    for percent, found in ((90, kernel.points.p90), (99, kernel.points.p99)):
        expected = launch_quantile(launches, percent / 100)
        assert (expected is None) == (10 * samples < samples_needed(percent / 100))
        assert found.tolist() == pytest.approx(
            [np.nan if expected is None else expected.value], rel=1e-8, nan_ok=True
        )
    assert kernel.ratio is not None
    assert np.isnan(kernel.ratio.p90).all()


def test_keeping_again_changes_nothing_and_another_file_adds(root: Path) -> None:
    """The same file twice is one; a file with other cases leaves those that were there."""
    first = run_of(root, 1, cases=2)
    kept(root, first)
    before = content_of(root)
    kept(root, first)
    assert content_of(root) == before
    second = run_of(root, 2, cases=3)
    for launch in second.launches:
        launch.results = [one for one in launch.results if one.case != second.cases[0].id]
    history = kept(root, second)
    after = content_of(root)["results"]["cpu.Seconds.track_seconds"]
    assert after[-1][:2] == before["results"]["cpu.Seconds.track_seconds"][-1][:2]
    assert after[-1][2:4] != before["results"]["cpu.Seconds.track_seconds"][-1][2:4]
    assert len({one.case for one in history.series}) == 3


def test_the_machine_s_measured_peaks_are_the_roofs_of_its_page(root: Path) -> None:
    """Those of a recorded run file, newest first; without any, a CPU has no roofline."""
    run = run_of(root)
    names = {figure.name for figure in figures(root, kept(root, run))}
    assert "roofline" not in names
    peaks = {"flops": {"fp16": 1e12, "fp32": 1e12}, "bytes_per_second": 1e10}
    for threads, day in ((2, "2026-01-02"), (4, "2026-01-03")):
        place = {"device": "cpu", "name": run.environment.cpu, "threads": threads}
        run.ceilings = [Ceilings(measured=day, **place, **peaks)]
        (found,) = (one for one in figures(root, kept(root, run)) if one.name == "roofline")
        told = f"measured on {run.environment.cpu} with {threads} threads at {day}"
        assert told in " ".join(found.notes)


def figures(root: Path, history: History) -> tuple[Figure, ...]:
    """Those of the machine's page."""
    ((latest,), notes) = latest_tables(history, root / "results")
    assert notes == []
    return latest.figures


def test_no_candidate_is_kept_in_the_place_of_another(root: Path) -> None:
    """Names in the history exclude the commit, so names that differ only in it are refused."""
    run = run_of(root)
    commit = run.candidates[0].build.commit
    for name, words in (
        ("sdpa", "'sdpa' would both be kept"),
        ("f", "'f' and 'f@[0-9a-f]+' would both"),
    ):
        twins = run_of(root)
        twins.candidates[0].name = f"{name}@{commit[:8]}"
        if name == "f":
            twins.candidates.append(structs.replace(twins.candidates[0], name="f"))
        with pytest.raises(InvalidInputError, match=words):
            keep(twins, "run.json", root / "results", root)


def test_the_callable_of_a_project_may_be_called_sdpa() -> None:
    """Its commits are measured beside SDPA, and kept apart from it."""
    project = Project(Path(), "kernel:sdpa")
    built: Any = SimpleNamespace(project=project, revision=SimpleNamespace(commit="a" * 40))
    candidate = Candidate(
        name=candidate_of(built), spec=project.callable, build=BuildIdentity(commit="a" * 40)
    )
    assert series_of(candidate) == "kernel.sdpa"


@pytest.mark.parametrize("cases", [1, 2])
def test_a_wrong_result_takes_the_number_away_and_a_crash_does_not(root: Path, cases: int) -> None:
    """What is wrong has no speed, nor a ratio where nothing else has one; what crashed says
    nothing about the earlier one."""
    kept(root, run_of(root, 1, cases=cases))
    for status, numbers in (("crashed", 1), ("wrong", 0)):
        run = run_of(root, 1, cases=cases)
        for launch in run.launches:
            for one in launch.results:
                if one.candidate == "flashbench" and one.case == run.cases[0].id:
                    one.status, one.timings = status, []
        history = kept(root, run)
        (series,) = (
            one
            for one in history.series
            if (one.case, one.candidate) == (run.cases[0].id, "flashbench")
        )
        assert len(series.points) == numbers


def test_what_belongs_to_no_commit_is_refused(root: Path) -> None:
    """Uncommitted changes, an unknown commit, none at all, two builds: nothing is written."""
    dirty, unknown, none, pair = (run_of(root) for _ in range(4))
    dirty.candidates[0].build.dirty = True
    unknown.candidates[0].build.commit = "f" * 40
    none.candidates[0].build.commit = ""
    pair.pair = Pair(old="sdpa", new="flashbench", tolerance=0.01, confidence=0.95)
    for run, words in (
        (dirty, "uncommitted changes"),
        (unknown, "no commit of"),
        (none, "--commit"),
        (pair, "until decided"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            kept(root, run)
    assert not (root / "results").exists()
    assert kept(root, none, commit="HEAD~1").series[0].points.commit.tolist() == [0]
    with pytest.raises(InvalidInputError, match="not from"):
        kept(root, run_of(root), commit="HEAD~1")


@pytest.mark.parametrize("name", ["HEAD", "main", "WORKTREE", "HEAD~1", "abbreviated"])
def test_a_run_file_names_its_commit_in_full(root: Path, name: str) -> None:
    """What stands for one commit today and another tomorrow is no commit of a run file, and the
    working tree none of --commit."""
    run = run_of(root)
    named = axis(root)[0].id[:12] if name == "abbreviated" else name
    run.candidates[0].build.commit = named
    with pytest.raises(InvalidInputError, match="no full hash"):
        kept(root, run)
    run.candidates[0].build.commit = ""
    if name == "WORKTREE":
        with pytest.raises(InvalidInputError, match="the working tree is no commit"):
            kept(root, run, commit=name)
        assert not (root / "results").exists()
    else:
        assert kept(root, run, commit=named).series


def test_a_machine_is_one_machine(root: Path) -> None:
    """Another CPU under the same name, and a name that is a path, are refused."""
    first = run_of(root)
    first.environment.cpu = "one CPU"
    kept(root, first)
    other = run_of(root)
    other.environment.cpu = "another CPU"
    with pytest.raises(InvalidInputError, match="another name with --machine"):
        kept(root, other)
    history = kept(root, other, machine="box-2")
    assert [(one.name, one.cpu) for one in history.machines] == [
        ("box", "one CPU"),
        ("box-2", "another CPU"),
    ]
    for name in ("../elsewhere", "", ".hidden", "a/b", "x\n"):
        other.environment.hostname = name
        with pytest.raises(InvalidInputError, match="--machine"):
            kept(root, other)


def test_what_is_damaged_is_left_as_it_is(root: Path) -> None:
    """A result file that cannot be understood is reported and not replaced."""
    kept(root, run_of(root))
    (path,) = (root / "results" / "box").glob("*-run-py3.11.json")
    good = json.loads(path.read_text())
    broken = json.loads(path.read_text())
    broken["results"]["cpu.Ratio.track_ratio"][0].pop()
    for text in ("{", "[]", json.dumps(good | {"commit_hash": "0" * 40}), json.dumps(broken)):
        path.write_text(text)
        with pytest.raises(InvalidInputError, match=path.name):
            kept(root, run_of(root))
        assert path.read_text() == text


def test_nothing_measured_is_told(root: Path) -> None:
    """A run file without a time is kept nowhere."""
    run = run_of(root)
    run.launches = []
    with pytest.raises(NotMeasuredError):
        kept(root, run)
    assert not list((root / "results").glob("box/*-run-*.json"))


def _keep_one(root: Path, number: int) -> None:
    run = run_of(root, number, cases=3)
    run.cases = [run.cases[number]]
    for launch in run.launches:
        launch.results = [one for one in launch.results if one.case == run.cases[0].id]
    keep(run, "run.json", root / "results", root)


def test_two_at_once_lose_nothing(root: Path) -> None:
    """Processes that keep files of one commit at the same time all find their numbers there."""
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_keep_one, args=(root, number)) for number in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    history = read(root / "results", axis(root))
    assert len({one.case for one in history.series if len(one.points)}) == 3
    described = json.loads((root / "results" / "benchmarks.json").read_text())
    assert len(described["cpu.Seconds.track_seconds"]["params"][0]) == 3


def test_a_full_disk_leaves_the_old_file(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the new file cannot be written the one that was there is whole."""
    kept(root, run_of(root, 1))
    before = content_of(root)

    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(keeping, "replace_file", full)
    with pytest.raises(OSError, match="No space"):
        kept(root, run_of(root, 2))
    assert content_of(root) == before


def test_asv_publishes_and_compares_what_was_kept(root: Path) -> None:
    """asv itself reads the files: its site has the graphs, its comparison the ratio."""
    old, new = run_of(root, 1), run_of(root, 2, speedup=0.5)
    old.candidates[0].build.commit = axis(root)[0].id
    for name, run in (("old.json", old), ("new.json", new)):
        save(run, root / name)
    command = [sys.executable, "-m", "flashbench", "record", "--results", "results"]
    done = subprocess.run(
        [*command, "old.json", "new.json"], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("kept in") == 2
    conf = {"version": 1, "project": "toy", "repo": ".", "branches": ["main"]}
    conf |= {"results_dir": "results", "html_dir": "html", "environment_type": "existing"}
    (root / "asv.conf.json").write_text(json.dumps(conf))
    asv = [sys.executable, "-m", "asv"]
    done = subprocess.run([*asv, "publish"], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (graph,) = (root / "html" / "graphs" / "arch").rglob("cpu.Ratio.track_ratio.json")
    assert len(json.loads(graph.read_text())) == 2
    done = subprocess.run(
        [*asv, "compare", "--machine", "box", "HEAD~1", "HEAD"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "cpu.Ratio.track_ratio" in done.stdout
    assert "+" in done.stdout


def test_the_cost_of_a_commit_is_kept_beside_its_numbers(root: Path) -> None:
    """Recorded twice it counts once, another run adds to it; it has a price where one is set for
    the machine, and none is made up."""
    run, other = run_of(root), run_of(root, 1)
    for launch in run.launches:
        launch.device_seconds = 6.0
    run.costs.build_seconds, other.launches[0].started = 30.0, "2026-01-02T00:00:00+00:00"
    for launch in other.launches:
        launch.device_seconds = 1.2
    assert kept(root, run, run).spent == {("box", 1): Spent(60.0, builds=30.0)}
    kept(root, other)
    cpu = read(root / "results", axis(root)).machines[0].cpu
    price = DevicePrice(3.6, "usd")
    found = read(root / "results", axis(root), prices={cpu: price, "H200": DevicePrice(9.0)})
    (spent,) = found.spent.values()
    assert (spent.device, spent.money(spent.device)) == (72.0, pytest.approx(0.072))


def test_commits_of_one_run_share_what_both_needed(root: Path) -> None:
    """Each has the seconds of its own candidate, and half of the rest: together the whole run."""
    run = run_of(root)
    mine = run.candidates[0]
    build = BuildIdentity(commit=axis(root)[0].id)
    run.candidates.append(structs.replace(mine, name="flashbench@first", build=build))
    for launch in run.launches:
        launch.device_seconds = 6.0
        own = [result for result in launch.results if result.candidate == mine.name]
        for result in own:
            result.device_seconds = 1.0
            launch.results.append(
                structs.replace(result, candidate="flashbench@first", device_seconds=0.25)
            )
    history = kept(root, run)
    first, second = (history.spent["box", place].device for place in (0, 1))
    assert second - first == pytest.approx(0.75 * len(run.launches) * len(run.cases))
    assert first + second == pytest.approx(run.device_seconds)
