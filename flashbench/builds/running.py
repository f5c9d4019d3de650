"""Run a build's command: its environment, its time limit, its progress, and no process left
behind."""

import contextlib
import errno
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import IO

from flashbench.builds import keeper, supervise

_Report = Callable[[float, str], None]  # receives a build's seconds so far and its latest step

_ENDING_SECONDS = 30.0  # for what a supervisor must end
_REPORT_SECONDS = 30.0  # between two reports of a build
_REPORTED_BYTES = 1 << 13  # of its output, in which the latest step is sought
# "[3/40] Building CXX object" of ninja, "[  7%] Building" of CMake's makefiles.
_STEP = re.compile(r"\[ *\d+(/\d+|%)\]")

_report: ContextVar[_Report] = ContextVar("report", default=lambda seconds, step: None)
_running: set[int] = set()  # keepers
_stopping = threading.Event()


class StoppedError(Exception):
    """The build was ended by `stop_all`: it says nothing about the sources."""


class KilledError(Exception):
    """The process that keeps a build's log, or ends the build, was killed by the build itself or by
    the system."""


def environment() -> dict[str, str]:
    """The environment of a build: this process's, with this Python's tools on PATH."""
    found = dict(os.environ)
    # cmake and ninja are Python packages: find them even if the environment is not activated.
    tools = str(Path(sys.executable).parent)
    path = found.get("PATH", os.defpath)
    if path.partition(os.pathsep)[0] != tools:
        found["PATH"] = os.pathsep.join([tools, path])
    found |= {"LC_ALL": "C.UTF-8", "LANGUAGE": ""}  # compilers report in the words that we read
    found["PYTHONDONTWRITEBYTECODE"] = "1"  # nothing is written into the checkout
    return found


def run(
    command: Sequence[str],
    directory: Path,
    log: Path,
    environment: Mapping[str, str],
    timeout: float,
) -> int | None:
    """The exit code, or None after a time-out. No process of the build outlives this call, or this
    process.

    Raises OSError if the command cannot be started, StoppedError after `stop_all`, KilledError if
    no process is left to report how it ended.
    """
    _require_program(command[0], directory, environment)
    if _stopping.is_set():
        raise StoppedError
    answer, theirs = os.pipe()
    supervised = [sys.executable, "-I", "-S", str(supervise.__file__), str(theirs), *command]
    with os.fdopen(answer, "rb") as answers, log.open("wb") as output:
        try:
            process = subprocess.Popen(
                kept(supervised),
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=[theirs],
            )
        finally:
            os.close(theirs)
        try:
            with stoppable(process.pid):
                ended = _ends_within(timeout, process, log)
        finally:
            _end(process)
            said = read_to_end(answers)  # by then nothing of the build is left
    if _stopping.is_set():
        raise StoppedError
    if ended and not said:
        raise KilledError(
            "the build, or the system for lack of memory, killed the process that supervises the "
            "build; no process of it is left"
        )
    return int(said) if ended else None


@contextlib.contextmanager
def reported(report: _Report) -> Iterator[None]:
    """Inside it the builds of this thread are reported every 30 seconds."""
    token = _report.set(report)
    try:
        yield
    finally:
        _report.reset(token)


def _ends_within(timeout: float, process: subprocess.Popen[bytes], log: Path) -> bool:
    """Wait for its end, and report its steps meanwhile."""
    started = time.monotonic()
    while (left := started + timeout - time.monotonic()) > 0:
        try:
            process.wait(min(left, _REPORT_SECONDS))
            return True
        except subprocess.TimeoutExpired:
            _report.get()(time.monotonic() - started, _latest_step(log))
    return False


def _latest_step(log: Path) -> str:
    """The last line that names a step, or the last of any kind, of a build's output so far."""
    with log.open("rb") as output:
        output.seek(max(0, log.stat().st_size - _REPORTED_BYTES))
        printed = output.read().decode(errors="replace")
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    return ([line for line in lines if _STEP.match(line)] or lines or [""])[-1]


def kept(command: Sequence[str]) -> list[str]:
    """The command under a keeper, for a process in its own session."""
    return [sys.executable, "-I", "-S", str(keeper.__file__), str(os.getpid()), *command]


def _end(process: subprocess.Popen[bytes]) -> None:
    """Have a keeper end what it runs."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGCONT)  # its command may have stopped it
    try:
        process.wait(_ENDING_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def read_to_end(pipe: IO[bytes] | socket.socket) -> bytes:
    """Read until the last process holding the other end is gone, within the time that a process may
    take to end."""
    end, said = time.monotonic() + _ENDING_SECONDS, b""
    while select.select([pipe], [], [], max(0.0, end - time.monotonic()))[0]:
        part = os.read(pipe.fileno(), 1 << 16)
        if not part:
            break
        said += part
    return said


def stop_all() -> None:
    """End every build of this process, in all threads, and let none start."""
    _stopping.set()
    for process in tuple(_running):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)


@contextlib.contextmanager
def stoppable(process: int) -> Iterator[None]:
    """Inside it `stop_all` ends this process too, with SIGTERM. Raises StoppedError if it was
    called before, and may have missed it."""
    _running.add(process)
    try:
        if _stopping.is_set():
            raise StoppedError
        yield
    finally:
        _running.discard(process)


def stopped() -> bool:
    """Whether `stop_all` was called."""
    return _stopping.is_set()


def _require_program(program: str, directory: Path, environment: Mapping[str, str]) -> None:
    """Check that the program exists here: a supervisor could only exit without it."""
    if os.sep in program:
        found = os.access(directory / program, os.X_OK)
    else:
        found = shutil.which(program, path=environment.get("PATH")) is not None
    if not found:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
