"""Ctrl-C ends every build, whenever it comes."""

import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from flashbench.build import running
from flashbench.project.check import Checker


@pytest.fixture(autouse=True)
def _anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_stopping", threading.Event())


def test_stop_while_a_build_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that is stopped after it was started and before it is known as running ends too."""
    start = subprocess.Popen

    def start_and_stop(*arguments: Any, **settings: Any) -> "subprocess.Popen[bytes]":
        process = start(*arguments, **settings)
        running.stop_all()
        return process

    monkeypatch.setattr(running.subprocess, "Popen", start_and_stop)
    command = ["sh", "-c", f"sleep 3; touch {tmp_path / 'done'}"]
    with pytest.raises(running.StoppedError):
        running.run(command, tmp_path, tmp_path / "log.txt", dict(os.environ), 20)
    assert not (tmp_path / "done").exists()


def test_nothing_is_checked_after_a_stop(tmp_path: Path) -> None:
    """A checker that is asked after the stop starts no server and waits for none."""
    running.stop_all()
    with Checker() as checker:
        with pytest.raises(running.StoppedError):
            checker.loads(tmp_path, "kernel:attention", tmp_path / "log.txt")
        assert checker._server is None
