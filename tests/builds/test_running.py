"""No process outlives its build, whatever is killed, and whenever."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from flashbench.builds import running
from flashbench.revisions.check import Checker


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


def test_a_build_reports_in_english(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the user's language: what compilers say is read."""
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("LANGUAGE", "de")
    command, log = ["sh", "-c", "echo $LC_ALL $LANGUAGE"], tmp_path / "log.txt"
    assert running.run(command, tmp_path, log, running.environment(), 20) == 0
    assert log.read_text() == "C.UTF-8\n"


def test_nothing_is_checked_after_a_stop(tmp_path: Path) -> None:
    """A checker that is asked after the stop starts no server and waits for none."""
    running.stop_all()
    with Checker() as checker:
        with pytest.raises(running.StoppedError):
            checker.loads(tmp_path, "kernel:attention", tmp_path / "log.txt")
        assert checker._forks._server is None


# Starts two processes that leave its session, one of them without its environment, and writes down
# which; then kills its ancestors, the farthest first, as many as it was told (or until a process).
KILLS = """
import os, signal, sys, time
ids, levels, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for clean in (False, True):
    if not os.fork():
        os.setsid()
        if os.fork():
            os._exit(0)
        with open(ids, "a") as file:
            file.write(f"{os.getpid()}\\n")
        if clean and levels == 1:
            os.execve("/bin/sleep", ["sleep", "1000"], {})
        time.sleep(1000)
while not os.path.exists(ids) or len(open(ids).read().splitlines()) < 2:
    time.sleep(0.001)
with open(ids, "a") as file:
    file.write(f"{os.getpid()}\\n")
def parent(process):
    return int(open(f"/proc/{process}/stat").read().rpartition(")")[2].split()[1])
ancestors = []
above = parent(os.getpid())
while above not in (last, 1, 0) and len(ancestors) < levels:
    ancestors.append(above)
    above = parent(above)
for process in reversed(ancestors):
    os.kill(process, signal.SIGKILL)
time.sleep(1000)
"""
RUNS = """
import os, sys
from pathlib import Path
from flashbench.builds import running
log, *command = sys.argv[1:]
running.run(command, Path.cwd(), Path(log), dict(os.environ), 60)
"""


def require_ended(ids: Path, seconds: float = 0.0) -> None:
    """No process that wrote itself down is left, at once or after some time."""
    processes = ids.read_text().split()
    assert len(processes) == 3
    end = time.monotonic() + seconds
    while left := [one for one in processes if is_alive(int(one))]:
        assert time.monotonic() < end, left
        time.sleep(0.01)


def is_alive(process: int) -> bool:
    """A zombie counts as dead: in a container without an init nothing reaps it."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="a keeper of orphans is Linux's")
@pytest.mark.parametrize("levels", [1, 2])
def test_a_build_that_kills_its_supervisors_leaves_nothing(tmp_path: Path, levels: int) -> None:
    """Whether it kills its parent or its grandparent too: nothing of it is left, and it is
    reported."""
    ids = tmp_path / "ids"
    command = [sys.executable, "-c", KILLS, str(ids), str(levels), str(os.getpid())]
    with pytest.raises(running.KilledError, match="killed the process that supervises the build"):
        running.run(command, tmp_path, tmp_path / "log.txt", dict(os.environ), 60)
    require_ended(ids)


@pytest.mark.skipif(sys.platform != "linux", reason="a keeper of orphans is Linux's")
def test_a_build_that_kills_all_its_ancestors_leaves_nothing(tmp_path: Path) -> None:
    """The building command may be killed as well: its leftovers still end."""
    ids = tmp_path / "ids"
    command = [sys.executable, "-c", KILLS, str(ids), "99", str(os.getpid())]
    outer = subprocess.run(
        [sys.executable, "-c", RUNS, str(tmp_path / "log.txt"), *command], cwd=tmp_path
    )
    assert outer.returncode == -9
    require_ended(ids, seconds=30)


def test_an_answer_cannot_be_written_by_the_build(tmp_path: Path) -> None:
    """A build has only its own three descriptors, so it cannot forge an exit code."""
    script = (
        "import os\n"
        "for descriptor in range(3, 256):\n"
        "    try:\n"
        "        os.write(descriptor, b'0')\n"
        "        print('wrote to', descriptor)\n"
        "    except OSError:\n"
        "        pass\n"
        "raise SystemExit(7)\n"
    )
    log = tmp_path / "log.txt"
    code = running.run([sys.executable, "-c", script], tmp_path, log, dict(os.environ), 60)
    assert (code, log.read_text()) == (7, "")
