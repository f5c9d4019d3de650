"""Commands of flashbench, and what became of their jobs."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from cloud.machine import Machine

from flashbench.cli import main

ROOT = Path(__file__).parents[2]
COMPARE = ["--", "compare", "first", "HEAD", "--run-file", "out.json"]
# Arguments of `sky` for a machine.
START = [
    "launch --yes --dryrun --cluster task.yaml",
    "launch --yes --detach-run --cluster armed.yaml",
    "launch --yes --detach-run --cluster task.yaml",
]


def flashbench(*arguments: str) -> int:
    """The exit code of a command, run in this process."""
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    assert isinstance(end.value.code, int)
    return end.value.code


def started(arguments: Sequence[str]) -> "subprocess.Popen[str]":
    """A command in a process of its own, to be killed."""
    return subprocess.Popen(
        [sys.executable, "-m", "flashbench", *arguments],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


def jobs(machine: Machine) -> list[Path]:
    return list((machine.home / "flashbench-cloud").glob("*"))


def job_of(machine: Machine) -> Path:
    (found,) = jobs(machine)
    return found


def until(holds: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "did not happen"
        time.sleep(0.05)


def said(machine: Machine) -> str:
    file = machine.home / "said"
    return file.read_text() if file.exists() else ""


def alive(job: Path) -> bool:
    """Whether any process of a job is left."""
    return subprocess.run(["flock", "-n", str(job / "lock"), "true"]).returncode != 0


def calls(fake: Path) -> list[str]:
    """The arguments of `sky`, without those of every call."""
    file = fake / "said"
    lines = file.read_text().splitlines() if file.exists() else []
    return [" ".join(w for w in line.split() if w[:11] != "flashbench-") for line in lines]


def removed(folder: Path) -> bool:
    """What a killed sshd leaves running writes there until it notices."""
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()
