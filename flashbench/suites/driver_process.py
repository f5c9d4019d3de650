"""The parent's end of a driver process: suites/driver.py in one revision's checkout."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from time import monotonic
from typing import Any

from flashbench.builds.recipe import signal_name
from flashbench.errors import NotMeasuredError
from flashbench.suites.checkouts import Checkout
from flashbench.suites.suite_file import BenchmarkStatus

_DRIVER = Path(__file__).with_name("driver.py")


class FailedError(Exception):
    """A benchmark that has no number. status: why."""

    def __init__(self, status: BenchmarkStatus, reason: str) -> None:
        super().__init__(reason)
        self.status: BenchmarkStatus = status


class DriverProcess:
    """One driver process. Use as a context manager: leaving it ends the process and its forks."""

    def __init__(self, checkout: Checkout, suite: Path, timeout: float) -> None:
        """Start it; `wait` says when it can answer. suite: in the checkout. timeout: seconds of an
        answer."""
        self.checkout, self.suite = checkout, suite
        self._timeout = timeout
        self._buffer = b""
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(_DRIVER), str(theirs.fileno()), str(os.getpid())],
                cwd=checkout.folder,
                env=checkout.environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C in the terminal is for the parent to handle
            )
        self._socket.sendall(_line(suite=str(suite)))

    def wait(self) -> None:
        """Wait until it has started. Raises NotMeasuredError if asv is not installed."""
        try:
            started = self._answer(self._timeout)
        except FailedError as error:
            raise NotMeasuredError(f"the suite's process did not start: {error}") from None
        if "fatal" in started:
            raise NotMeasuredError(str(started["fatal"]))

    def __enter__(self) -> "DriverProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Kill the process and its forks."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._socket.close()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, timeout: float = 0.0, **request: Any) -> dict[str, Any]:
        """The answer to a request. timeout: seconds, if not the usual. Raises FailedError for a
        crash, time-out, exception or skip."""
        try:
            self._socket.settimeout(self._timeout)
            self._socket.sendall(_line(**request))
        except OSError:
            raise FailedError("crashed", "the suite's process ended") from None
        return self._answer(timeout or self._timeout)

    def _answer(self, timeout: float) -> dict[str, Any]:
        end = monotonic() + timeout
        try:
            while b"\n" not in self._buffer:
                self._socket.settimeout(max(0.01, end - monotonic()))
                part = self._socket.recv(1 << 16)
                if not part:
                    raise FailedError("crashed", "the suite's process ended")
                self._buffer += part
        except TimeoutError:
            self.end()
            raise FailedError("timeout", f"no answer within {timeout:g} s") from None
        except OSError:
            raise FailedError("crashed", "the suite's process ended") from None
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise FailedError("error", answer["error"])
        if "skipped" in answer:
            raise FailedError("skipped", answer["skipped"])
        if "died" in answer:
            code, last = answer["died"], answer["last"]
            how = f"killed by {signal_name(-code)}" if code < 0 else f"exit status {code}"
            raise FailedError("crashed", f"{how}: {last}" if last else how)
        return answer


def _line(**request: Any) -> bytes:
    return json.dumps(request).encode() + b"\n"
