"""The parent's end of a worker process: start, ask, watch and end it."""

import contextlib
import io
import os
import re
import selectors
import signal
import socket
import subprocess
from collections import deque
from pathlib import Path
from time import monotonic
from typing import Self

import msgspec

from flashbench.builds import cache_directory
from flashbench.builds.recipe import signal_name
from flashbench.builds.scratch import scratch
from flashbench.errors import Exit, FlashbenchError, NotMeasuredError
from flashbench.inputs import reason
from flashbench.measuring.forks import Forks, Fresh, WorkerProcess
from flashbench.measuring.protocol import (
    Fatal,
    Inspect,
    Phase,
    Refused,
    Reply,
    Request,
    Setup,
    decode_reply,
    encode,
)
from flashbench.runfile import ResultStatus

# A block that runs when the budget ends may finish for this long before the worker is killed.
BUDGET_GRACE_SECONDS = 5.0
# What flashbench does itself (importing torch, the float64 reference) may take this long.
_OWN_TIMEOUT_SECONDS = 300.0
_INSPECTION_FACTOR = 10
_KEPT_ERROR_LINES = 50


class WorkerDiedError(Exception):
    """The worker died, or was killed, before it answered.

    candidate: what it was running ("" for flashbench itself); status and message say what happened.
    """

    def __init__(self, candidate: str, status: ResultStatus, reason: str) -> None:
        super().__init__(reason)
        self.candidate = candidate
        self.status: ResultStatus = status


def how_to_install(text: str) -> str:
    """The command that installs a package whose absence ended a process; "" if none is missing."""
    # Without the error's name, because a dying process's message may arrive without its start.
    lacks = re.search(r"No module named '(\w+)", text)
    return f"; install it: python -m pip install {lacks[1]}" if lacks else ""


class Worker:
    """One worker process. Use as a context manager: leaving it kills the process."""

    def __init__(self, timeout: float, forks: Forks | None = None) -> None:
        """timeout: seconds of a phase. forks: what forks the process; None: it starts by itself."""
        self._timeout = timeout
        self._phase = Phase("", "start")
        self._buffer = b""
        self._errors: deque[str] = deque(maxlen=_KEPT_ERROR_LINES)
        self._oom_kills = _oom_kills()
        self._at_end = contextlib.ExitStack()
        self._socket, theirs = socket.socketpair()
        reader, output = os.pipe()
        self._output = io.FileIO(reader)
        try:
            start = Fresh if forks is None else forks.start
            self._process: WorkerProcess = start(theirs, output)
        finally:
            theirs.close()
            os.close(output)
        os.set_blocking(self._output.fileno(), False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._socket, selectors.EVENT_READ)
        self._selector.register(self._output, selectors.EVENT_READ)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def phase(self) -> Phase:
        """What the worker is doing, as far as it reported."""
        return self._phase

    def kill(self) -> None:
        """End the worker and whatever it started, now."""
        self._process.kill()
        self._selector.close()
        self._socket.close()
        self._output.close()
        self._at_end.close()

    def ask(self, request: Request, seconds_left: float | None = None) -> Reply:
        """Send a request and wait for its answer.

        Every phase that the worker reports has `timeout` seconds, ten times that if it only
        inspects a call that was timed before (profilers are slow). Raises WorkerDiedError if the
        worker dies, hangs, or runs past the budget (`seconds_left`, and a grace unless it is
        starting), FlashbenchError if it cannot work at all.
        """
        if isinstance(request, Setup) and request.import_roots:
            request = msgspec.structs.replace(request, copies=self._directory())
        allowed = self._timeout * (_INSPECTION_FACTOR if isinstance(request, Inspect) else 1)
        grace = 0.0 if isinstance(request, Setup) else BUDGET_GRACE_SECONDS
        end = None if seconds_left is None else monotonic() + seconds_left + grace
        try:
            self._socket.sendall(encode(request))
        except OSError:
            raise self._death() from None
        while True:
            reply = self._next_reply(end, allowed)
            if isinstance(reply, Phase):
                self._phase = reply
            elif isinstance(reply, Refused):
                raise FlashbenchError(reply.reason, Exit(reply.exit_code))
            elif isinstance(reply, Fatal):
                raise WorkerDiedError(
                    self._phase.candidate, "crashed", f"{reply.reason} (the device was lost)"
                )
            else:
                self._phase = Phase("", "idle")
                return reply

    def _directory(self) -> str:
        """A directory for the worker, removed by the parent because the worker is killed."""
        try:
            return str(self._at_end.enter_context(scratch(cache_directory())))
        except OSError as error:
            raise NotMeasuredError(
                f"the build cache cannot be used ({reason(error)}); set FLASHBENCH_CACHE"
            ) from None

    def _next_reply(self, end: float | None, allowed: float) -> Reply:
        if not self._phase.candidate:
            allowed = max(_OWN_TIMEOUT_SECONDS, allowed)
        hung = monotonic() + allowed
        while b"\n" not in self._buffer:
            limit = hung if end is None else min(hung, end)
            if not self._receive(limit - monotonic()):
                if monotonic() < limit:
                    continue
                if limit == hung:
                    raise self._died(
                        "timeout", f"no answer within {allowed:g} s ({self._phase.doing})"
                    )
                raise self._died("over_budget", "killed: the budget was spent")
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            return decode_reply(line)
        except msgspec.DecodeError:
            raise self._died("crashed", "wrote into flashbench's own pipe") from None

    def _receive(self, seconds: float) -> bool:
        """Wait for the worker's messages and read them; False if none came in time."""
        events = self._selector.select(max(0.0, seconds)) if seconds > 0 else []
        for key, _ in events:
            if key.fileobj is self._socket:
                data = _read(self._socket.fileno())
                if not data:
                    raise self._death()
                self._buffer += data
            else:
                self._read_output()
        return bool(events)

    def _read_output(self) -> bool:
        """Keep the output of the candidates and the worker; False at its end."""
        data = _read(self._output.fileno())
        if not data:
            if self._output in self._selector.get_map():
                self._selector.unregister(self._output)
            return False
        self._errors.extend(line for line in data.decode(errors="replace").splitlines() if line)
        return True

    def _death(self) -> WorkerDiedError:
        """The worker closed its socket: collect its exit status and last output."""
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return self._died("crashed", "closed flashbench's own pipe")
        while self._read_output():
            pass
        if code == -signal.SIGKILL and _oom_kills() > self._oom_kills:
            return self._died("out_of_memory", "killed by the system: out of memory")
        how = f"killed by {signal_name(-code)}" if code < 0 else f"exit status {code}"
        last = self._errors[-1].strip()[:300] if self._errors else ""
        return self._died("crashed", f"{how}: {last}" if last else how)

    def _died(self, status: ResultStatus, reason: str) -> WorkerDiedError:
        return WorkerDiedError(self._phase.candidate, status, reason)


def _read(handle: int) -> bytes:
    try:
        return os.read(handle, 1 << 16)
    except (ConnectionResetError, BlockingIOError):
        return b""


def _oom_kills() -> int:
    """How many processes this system has killed for memory so far (0 if unknown)."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)
