"""What `run --slurm` says and refuses before it needs a Slurm."""

import os
import subprocess
from pathlib import Path

import forks
import numpy as np
import pytest
from synthetic import make_cases, make_run

from flashbench.fleet import slurm
from flashbench.fleet.merge import split
from flashbench.fleet.parts import Parts
from flashbench.measuring.plan import Plan
from flashbench.runfile import save
from flashbench.shard import equal_shards

pytest.importorskip("submitit", reason="submitit is not installed: pip install flashbench[slurm]")
CUDA = ["--device", "cuda", "--shape", "1,1,8,32"]


def run(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Without any program of Slurm on PATH."""
    return forks.run(["run", *arguments], directory, {"PATH": str(directory)})


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--slurm", "2"], 2, "add --device cuda or --device cpu"),
        ([*CUDA, "--slurm", "5"], 2, "at most 4 shards"),
        ([*CUDA, "--slurm", "0"], 2, "--slurm"),
        ([*CUDA, "--slurm", "2", "--gpus", "all"], 2, "drop one"),
        ([*CUDA, "--slurm", "2", "--shard", "1/2"], 2, "drop one"),
        ([*CUDA, "--slurm", "2", "--slurm-option", "x y=1"], 2, "by their long names"),
        ([*CUDA, "--slurm", "2", "--slurm-option", "comment=a\ntouch b"], 2, "on one line"),
        ([*CUDA, "--slurm", "2", "--slurm-partition", "a\nb"], 2, "on one line"),
        ([*CUDA, "--slurm", "2", "-o", "50%j.json", "--dry-run"], 2, "name another file"),
        ([*CUDA, "--dry-run"], 2, "need --slurm N"),
    ],
)
def test_bad_requests_are_one_line(
    tmp_path: Path, arguments: list[str], code: int, words: str
) -> None:
    """What cannot be sent is said in one line before anything is made."""
    done = run(tmp_path, *arguments)
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_no_slurm_is_told(tmp_path: Path) -> None:
    """Without sbatch the script is shown, the run is not measured, and nothing remains."""
    done = run(tmp_path, *CUDA, "--slurm", "2")
    assert done.returncode == 4
    assert "no sbatch here" in done.stderr.splitlines()[-1]
    assert not list(tmp_path.iterdir())


def test_script_asks_for_what_was_said(tmp_path: Path) -> None:
    """A GPU a task unless told otherwise; options of sbatch with and without a value; the whole
    plan, settings included, in the command of each task."""
    (tmp_path / "pyproject.toml").write_text(
        '[tool.flashbench.run]\nslurm = 3\nslurm-partition = "h200"\nsamples = 7\n'
    )
    flags = ["--slurm-option", "account=me", "--slurm-option", "requeue", "--budget", "1m"]
    done = run(tmp_path, *CUDA, *flags, "--dry-run")
    assert done.returncode == 0, done.stderr
    wanted = {
        "--array=0-2%3", "--gres=gpu:1", "--partition=h200", "--account=me", "--requeue",
        "--signal=TERM@30", "--time=60",
    }  # fmt: skip
    assert wanted <= {line.removeprefix("#SBATCH ") for line in done.stdout.splitlines()}
    assert "--exclusive" not in done.stdout
    tasks = [line for line in done.stderr.splitlines() if ": task " in line]
    assert len(tasks) == 3
    assert all("--samples=7" in task and "--budget=20.000000s" in task for task in tasks)
    assert "--shard 3/3" in tasks[2]
    assert "--slurm" not in done.stderr


ANSWERS = """#!/bin/sh
n=$(cat "$0.n" 2>/dev/null || echo 0)
echo $((n + 1)) > "$0.n"
case $n in
0) echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1;;
1) echo "0|RUNNING|None|n1"; echo "1|PENDING|Resources|";;
2) echo "0|COMPLETED|None|n1"; echo "1|PREEMPTED|None|n2";;
3) echo "0|COMPLETED|None|n1"; echo "1|PENDING|BeginTime|";;
4) echo "0|COMPLETED|None|n1"; echo "1|RUNNING|None|n3";;
*) echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1;;
esac
"""


@pytest.mark.parametrize("first", [0, 3])
def test_waiting_outlives_a_controller_and_ends_with_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    """A controller that does not answer is asked again; it is over when all tasks have ended, or
    when Slurm has forgotten the job, and the last state seen is reported of each shard."""
    (tmp_path / "squeue").write_text(ANSWERS)
    (tmp_path / "squeue").chmod(0o755)
    (tmp_path / "squeue.n").write_text(str(first))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(slurm, "_FIRST_POLL_SECONDS", 0.01)
    told: list[str] = []
    parts = Parts(tmp_path / "run.json", 4)
    last = slurm.Cluster(parts, slurm.SlurmRequest(60), told.append).wait("7", [2, 4])
    if first:
        assert told == [
            "shard 2/4: COMPLETED (n1)", "shard 4/4: PENDING (BeginTime)", "shard 4/4: RUNNING (n3)"
        ]  # fmt: skip
        assert last == {2: "COMPLETED (n1)", 4: "RUNNING (n3)"}
    else:
        assert told[:2] == ["shard 2/4: RUNNING (n1)", "shard 4/4: PENDING (Resources)"]
        assert last == {2: "COMPLETED (n1)", 4: "PREEMPTED (n2)"}


def test_shards_of_a_lost_node_are_sent_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second job has the shards alone whose node failed; the run is whole."""
    cases = make_cases(2)
    run = make_run(np.random.default_rng(0), cases=cases, launches=2, samples=3)
    sent: list[list[str]] = []
    parts = Parts(tmp_path / "run.json", 2)

    def submit(cluster: slurm.Cluster, commands: list[list[str]]) -> str:
        """Slurm, whose second node fails before it measures anything."""
        cluster.folder.mkdir(exist_ok=True)
        sent.append([word for command in commands for word in command if word in ("1/2", "2/2")])
        for shard in sent[-1]:
            index = int(shard[0])
            if shard == "1/2" or len(sent) == 2:
                save(split(run, equal_shards(2))[index - 1], parts.path(index))
        return str(len(sent))

    def wait(cluster: slurm.Cluster, job: str, shards: list[int]) -> dict[int, str]:
        lost = "NODE_FAIL (n2)" if job == "1" else "COMPLETED (n3)"
        return {shard: "COMPLETED (n1)" if shard == 1 else lost for shard in shards}

    monkeypatch.setattr(slurm.Cluster, "submit", submit)
    monkeypatch.setattr(slurm.Cluster, "wait", wait)
    told: list[str] = []
    plan = Plan(shapes=[case.sizes for case in cases], candidates=[], device="cpu", launches=2)
    ended = slurm.measure_on_slurm(
        plan, slurm.Cluster(parts, slurm.SlurmRequest(60), told.append), []
    )
    assert sent == [["1/2", "2/2"], ["2/2"]]
    assert ended is not None
    assert not ended.failed
    assert ended.run is not None
    assert all(launch.complete for launch in ended.run.launches)
    assert any("takes the cases of shards 2" in line for line in told)
