"""Worker processes, started by themselves or forked from a server that has imported torch."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Protocol, Self

from flashbench import own_python

_BOOTSTRAP = (
    "from flashbench.parent import end_with; end_with(int(sys.argv[2])); "
    "from flashbench.measuring.{} import main; {}main(int(sys.argv[1]))"
)
WORKER = _BOOTSTRAP.format("worker", own_python.FROM_HERE)
SERVER = _BOOTSTRAP.format("fork_server", "")

# Present where a GPU may be measured; the second in WSL.
GPU_DRIVERS = (Path("/dev/nvidiactl"), Path("/dev/dxg"))


def may_be_gpu(device: str) -> bool:
    """Whether a worker may choose a GPU. device: "cpu", "cuda" or "auto"."""
    return device == "cuda" or (device == "auto" and any(path.exists() for path in GPU_DRIVERS))


class WorkerProcess(Protocol):
    """What a `Worker` needs of its process."""

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, negative for a signal; subprocess.TimeoutExpired if it still runs."""
        ...

    def kill(self) -> None:
        """End it and what it started, and wait for it."""
        ...


class Fresh:
    """A worker that was started by itself."""

    def __init__(self, connection: socket.socket, output: int) -> None:
        self._process = _start(WORKER, connection, output)

    def wait(self, timeout: float | None = None) -> int:
        """As for `WorkerProcess`."""
        return self._process.wait(timeout)

    def kill(self) -> None:
        """As for `WorkerProcess`."""
        _kill_group(self._process.pid)
        self._process.wait()


class Forked:
    """A worker that a server forks. Its number and its exit code arrive as packets."""

    def __init__(self, server: "_Server", answers: socket.socket) -> None:
        self._server, self._answers = server, answers
        self._number = 0  # not known yet
        self._code: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        """As for `WorkerProcess`."""
        while self._code is None:
            try:
                self._receive(timeout)
            except TimeoutError:
                raise subprocess.TimeoutExpired("a worker", timeout or 0) from None
        return self._code

    def kill(self) -> None:
        """As for `WorkerProcess`."""
        if not self._number and self._code is None:
            with contextlib.suppress(BlockingIOError):
                self._receive(0)
        if self._number:
            _kill_group(self._number)
        else:  # the server is still importing torch
            self._server.end()
        self.wait()

    def _receive(self, timeout: float | None) -> None:
        self._answers.settimeout(timeout)
        packet = self._answers.recv(100)
        if packet and not self._number:
            self._number = int(packet)
        else:  # without a packet the server is dead, and its workers with it
            self._code = int(packet) if packet else self._server.end()
            self._answers.close()


class Forks:
    """Starts workers as forks of a server, which starts with the first of them. Use as a context
    manager: leaving it ends them all."""

    possible = sys.platform == "linux"

    def __init__(self) -> None:
        self._server: _Server | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def start(self, connection: socket.socket, output: int) -> Forked:
        """A worker with this end of its socket, printing to the descriptor `output`."""
        if self._server is None or not self._server.alive:
            self.end()
            self._server = _Server(output)
        return self._server.fork(connection, output)

    def end(self) -> None:
        """End the server and its workers, now."""
        if self._server is not None:
            self._server.end()
            self._server = None


class _Server:
    """A process that has imported torch, or soon will have. Until then it prints to `output`."""

    def __init__(self, output: int) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = _start(SERVER, theirs, output)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def fork(self, connection: socket.socket, output: int) -> Forked:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        handles = [connection.fileno(), output, theirs.fileno()]
        with theirs, contextlib.suppress(BrokenPipeError):  # it died: `Forked` finds out
            socket.send_fds(self._requests, [b"w"], handles)
        return Forked(self, ours)

    def end(self) -> int:
        """Kill it, unless it has ended, and with it its workers; its exit code."""
        self._process.kill()
        self._requests.close()
        return self._process.wait()


def _start(bootstrap: str, connection: socket.socket, output: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        own_python.command(bootstrap, str(connection.fileno()), str(os.getpid())),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        pass_fds=[connection.fileno()],
        start_new_session=True,  # Ctrl-C in the terminal is for the parent to handle
    )


def _kill_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it is gone already
        os.killpg(leader, signal.SIGKILL)
