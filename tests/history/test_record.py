"""`flashbench record`: one series with asv's results, whole runs alone, the machine's name."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import forks
import numpy as np
import pytest
from asv.environment import get_env_name
from history.project import COLUMNS, make_repository, row
from synthetic import make_cases, make_run

from flashbench.errors import Exit
from flashbench.history import names
from flashbench.history.doubts import doubts
from flashbench.runfile import DeviceState, RunFile, save

ROOT = Path(__file__).parents[2]


@pytest.fixture
def commits(tmp_path: Path) -> list[str]:
    conf = {"version": 1, "project": "toy", "repo": ".", "branches": ["main"]}
    conf |= {"results_dir": "results", "html_dir": "html", "environment_type": "existing"}
    (tmp_path / "asv.conf.json").write_text(json.dumps(conf))
    return make_repository(tmp_path, ["One", "Two"])


def run_of(commit: str, **options: Any) -> RunFile:
    """Ten launches of a commit on the host `box`."""
    made = make_run(
        np.random.default_rng(0),
        cases=make_cases(2),
        launches=10,
        candidate="flashbench",
        **options,
    )
    made.environment.hostname = "box"
    made.environment.python = platform.python_version()
    made.environment.cpu_count = made.environment.threads = 2
    made.candidates[0].build.commit = commit
    return made


def call(root: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """A module of this Python in the repository, whose home is the user's."""
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=root,
        env=os.environ | {"HOME": str(root), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def record(root: Path, run: RunFile, *arguments: str) -> subprocess.CompletedProcess[str]:
    save(run, root / "run.json")
    command = ["record", "--results", "results", "run.json", *arguments]
    done = forks.run(command, root, {"HOME": str(root)})
    assert "Traceback" not in done.stderr
    return done


def kept(root: Path) -> list[str]:
    return sorted(path.parent.name for path in (root / "results").glob("*/*-run-py*.json"))


def test_asv_compares_one_series(tmp_path: Path, commits: Sequence[str]) -> None:
    """What asv measured of a commit and what was recorded of it are one series to `asv compare`,
    each benchmark on one line, and to `asv publish`."""
    assert call(tmp_path, "asv", "machine", "--yes", "--machine", "box").returncode == 0
    described = json.loads((tmp_path / ".asv-machine.json").read_text())["box"]
    python = ".".join(platform.python_version().split(".")[:2])
    cases = [case.id for case in make_cases(2)]
    folder = tmp_path / "results" / "box"
    folder.mkdir(parents=True)
    (folder / "machine.json").write_text(json.dumps(described | {"version": 1}))
    environment = get_env_name("flashbench", python, {}, {})
    for commit in commits:  # as `asv run` writes it
        times = [[1e-3] * 3] * 4
        content = {
            "commit_hash": commit,
            "env_name": environment,
            "date": 1_700_000_000_000,
            "params": described | {"python": python},
            "python": python,
            "requirements": {},
            "env_vars": {},
            "result_columns": COLUMNS,
            "results": {
                str(names.Name("cpu", "wall", names.SECONDS)): row(
                    [cases, ["flashbench", "sdpa"]], times
                )
            },
            "durations": {},
            "version": 2,
        }
        path = folder / f"{commit[:8]}-{environment}.json"
        path.write_text(json.dumps(content))
    before = {path.name: path.read_bytes() for path in folder.glob("*-flashbench-*.json")}
    run = run_of(commits[1])
    run.environment.cpu = ""
    done = record(tmp_path, run)
    assert done.returncode == Exit.PASS, done.stderr
    assert {path.name: path.read_bytes() for path in folder.glob("*-flashbench-*.json")} == before
    (path,) = folder.glob("*-run-py*.json")
    assert json.loads(path.read_text())["params"] == described | {"python": python}
    done = call(tmp_path, "asv", "compare", commits[0], commits[1])
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if "track_seconds" in line]
    assert len(lines) == 4, done.stdout
    assert "box/" not in done.stdout
    done = call(tmp_path, "asv", "publish")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list((tmp_path / "html" / "graphs").rglob("cpu.Seconds.track_seconds.json"))) == 2


def busy(run: RunFile) -> None:
    for launch in run.launches:
        launch.before = DeviceState(load_average=6.5)


def interrupted(run: RunFile) -> None:
    run.settings.launches = 3
    del run.launches[2:]
    run.launches[1].complete = False


def few(run: RunFile) -> None:
    run.settings.launches = 2
    del run.launches[2:]


def throttled(run: RunFile) -> None:
    for result in run.launches[0].results:
        result.dropped_blocks = 100


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (busy, "busy with other work in 10 of 10 launches (load average up to 6.5 on 2 CPUs)"),
        (interrupted, "1 of 3 launches are complete"),
        (few, "2 launches, fewer than 3"),
        (throttled, "% of the blocks were throttled"),
    ],
)
def test_a_doubtful_run_is_kept_only_with_a_flag(
    tmp_path: Path, commits: Sequence[str], spoil: Any, words: str
) -> None:
    """It is refused in one line with the reason; with --anyway that becomes a warning."""
    run = run_of(commits[0])
    spoil(run)
    done = record(tmp_path, run)
    assert done.returncode == Exit.USAGE
    (line,) = done.stderr.splitlines()
    assert words in line
    assert "--anyway" in line
    assert not kept(tmp_path)
    done = record(tmp_path, run, "--anyway")
    assert done.returncode == Exit.PASS, done.stderr
    assert f"warning: run.json: {words}" in done.stderr or words in done.stderr.splitlines()[0]
    assert kept(tmp_path) == ["box"]


def test_a_run_s_own_threads_are_no_other_work(commits: Sequence[str]) -> None:
    """From the second launch on the load average includes the run itself; a single busy launch of
    ten does not move a median."""
    run = run_of(commits[0])
    for launch in run.launches:
        launch.before = DeviceState(load_average=2.3)
    assert doubts(run) == []


@pytest.mark.parametrize("host", ["localhost", "3f2a91b0c7de", "localhost.localdomain"])
def test_a_host_without_a_name_asks_for_one(
    tmp_path: Path, commits: Sequence[str], host: str
) -> None:
    """Nothing is filed under what every container has another of, or everybody has."""
    run = run_of(commits[0])
    run.environment.hostname = host
    done = record(tmp_path, run)
    assert done.returncode == Exit.USAGE
    (line,) = done.stderr.splitlines()
    assert host in line
    assert "--machine" in line
    assert not kept(tmp_path)
    assert record(tmp_path, run, "--machine", "lab").returncode == Exit.PASS
    assert kept(tmp_path) == ["lab"]


def test_asv_s_machine_is_the_machine(tmp_path: Path, commits: Sequence[str]) -> None:
    """A run of this host goes to the one machine that asv knows here, as asv's own runs do, and
    stderr says so; that of another host does not, and --machine wins."""
    assert call(tmp_path, "asv", "machine", "--yes", "--machine", "lab").returncode == 0
    described = json.loads((tmp_path / ".asv-machine.json").read_text())
    entry = next(value for value in described.values() if isinstance(value, dict))
    described = {"version": 1, "lab": entry | {"machine": "lab", "cpu": "my own words"}}
    (tmp_path / ".asv-machine.json").write_text(json.dumps(described))
    run = run_of(commits[0])
    run.environment.hostname = platform.node()
    done = record(tmp_path, run)
    assert done.returncode == Exit.PASS, done.stderr
    assert "of machine lab: asv's name of this machine, in ~/.asv-machine.json" in done.stderr
    assert record(tmp_path, run).returncode == Exit.PASS  # in other words than its own
    assert kept(tmp_path) == ["lab"]
    assert record(tmp_path, run_of(commits[0])).returncode == Exit.PASS
    assert record(tmp_path, run, "--machine", "mine").returncode == Exit.PASS
    assert kept(tmp_path) == ["box", "lab", "mine"]


def test_a_damaged_list_of_machines_is_told(tmp_path: Path, commits: Sequence[str]) -> None:
    """It is one line, and nothing is kept under a guess."""
    (tmp_path / ".asv-machine.json").write_text("{")
    done = record(tmp_path, run_of(commits[0]))
    assert done.returncode == Exit.USAGE
    (line,) = done.stderr.splitlines()
    assert "damaged asv machine file" in line
