"""Processes that are started by themselves, or forked from a server that has imported torch."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Protocol, Self

from flashbench import own_python
from flashbench.builds import running

_BOOTSTRAP = (
    "from flashbench.end_with_parent import end_with; end_with(int(sys.argv[2])); "
    f"from flashbench import worker_main; {own_python.FROM_HERE}"
)
WORKER = _BOOTSTRAP + "worker_main.main(int(sys.argv[1]))"
SERVER = _BOOTSTRAP + "worker_main.serve(int(sys.argv[1]))"
_ENDING_SECONDS = 5.0  # for a server that sweeps

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
    """A worker that was started on its own."""

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
    """A process that a server forks. Its number and its exit code arrive as packets.

    lost: whether the server ended first; the exit code is then the server's.
    """

    def __init__(self, server: "_Server", answers: socket.socket) -> None:
        self.server, self.lost = server, False
        self._answers = answers
        self._number = 0  # not known yet
        self._code: int | None = None

    def fileno(self) -> int:
        """Readable when there is news for `started` or `wait`."""
        return self._answers.fileno()

    def started(self, timeout: float) -> bool:
        """Whether it starts within these seconds."""
        if not self._number and self._code is None:
            with contextlib.suppress(TimeoutError, BlockingIOError):
                self._receive(timeout)
        return self._number > 0

    def wait(self, timeout: float | None = None) -> int:
        """As for `WorkerProcess`."""
        while self._code is None:
            try:
                self._receive(timeout)
            except TimeoutError:
                raise subprocess.TimeoutExpired("a fork", timeout or 0) from None
        return self._code

    def kill(self, timeout: float | None = None) -> None:
        """As for `WorkerProcess`. subprocess.TimeoutExpired if the server does not report it."""
        if self.started(0):
            _kill_group(self._number)
        else:  # the server is still importing torch
            self.server.end()
        self.wait(timeout)

    def _receive(self, timeout: float | None) -> None:
        self._answers.settimeout(timeout)
        packet = self._answers.recv(100)
        if packet and not self._number:
            self._number = int(packet)
        else:  # without a packet the server is dead, and its forks with it
            self.lost = not packet
            self._code = int(packet) if packet else self.server.end()
            self._answers.close()


class Forks:
    """Forks processes from a server (fork_server.py), which starts with the first of them. Use as a
    context manager: leaving it ends them all."""

    possible = sys.platform == "linux"

    def __init__(self, bootstrap: str = SERVER, *, sweeps: bool = False) -> None:
        """bootstrap: the server's code. sweeps: as for `fork_server.main`; the server then prints
        nothing, and has a keeper, which ends what the server leaves if it is killed."""
        self._bootstrap, self._sweeps = bootstrap, sweeps
        self._server: _Server | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def start(self, connection: socket.socket, output: int) -> Forked:
        """A process with this end of its socket, printing to the descriptor `output`."""
        if self._server is None or not self._server.alive:
            self.end()
            self._server = _Server(self._bootstrap, output, self._sweeps)
        return self._server.fork(connection, output)

    def end(self) -> None:
        """End the server and its forks, now."""
        if self._server is not None:
            self._server.end()
            self._server = None


class _Server:
    """A process that has imported torch, or soon will have. Until then it prints to `output`."""

    def __init__(self, bootstrap: str, output: int, sweeps: bool) -> None:
        self._sweeps = sweeps
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            said = subprocess.DEVNULL if sweeps else output
            self._process = _start(bootstrap, theirs, said, kept=sweeps)
        self.pid = self._process.pid

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
        """End it, unless it has ended, and with it its forks; its exit code."""
        if self._sweeps and self._requests.fileno() >= 0:
            with contextlib.suppress(OSError):  # it has ended
                self._requests.shutdown(socket.SHUT_WR)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_ENDING_SECONDS)
            self._process.kill()
            with contextlib.suppress(ConnectionResetError):
                running.read_to_end(self._requests)  # at its end no process of the server is left
        self._process.kill()
        self._requests.close()
        return self._process.wait()


def _start(
    bootstrap: str, connection: socket.socket, output: int, *, kept: bool = False
) -> "subprocess.Popen[bytes]":
    command = own_python.command(bootstrap, str(connection.fileno()), str(os.getpid()))
    return subprocess.Popen(
        running.kept(command) if kept else command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=running.environment() if kept else None,
        pass_fds=[connection.fileno()],
        start_new_session=True,  # Ctrl-C in the terminal is for the parent to handle
    )


def _kill_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError):  # it is gone already
        os.killpg(leader, signal.SIGKILL)
