"""Commands of flashbench in forks of one process that has imported torch (forked.py).

For tests of what commands measure, decide and print, and of how they end. Tests of how processes
start, and of their workers' end with them, start them as users do.
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import forked

ROOT = Path(__file__).parents[1]
CLOSED = -4  # beside subprocess's DEVNULL


class Command:
    """A command that runs. stdout and stderr are kept in files, to be read once it has ended."""

    def __init__(self, pid: int, answers: socket.socket, said: list[int | None]) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._answers, self._said = answers, said

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._answers], [], [], 0)[0]:
            self._end()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._answers], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
            self._end()
        assert self.returncode is not None
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What it said on stdout and stderr; "" where a stream was given."""
        self.wait(timeout)
        stdout, stderr = ("" if one is None else _read(one) for one in self._said)
        return stdout, stderr

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _end(self) -> None:
        self.returncode = int(self._answers.recv(100))
        self._answers.close()


def run(
    arguments: Sequence[object],
    cwd: Path,
    environment: Mapping[str, str] = {},
    packages: Path | None = None,
    imported: str = "",
    **streams: int,
) -> subprocess.CompletedProcess[str]:
    """`flashbench ARGUMENTS` in `cwd`. environment: besides this process's; packages: a folder of
    packages that are installed, as it were; imported, streams: as for `start`."""
    command = start(arguments, cwd, environment, packages, imported=imported, **streams)
    stdout, stderr = command.communicate()
    return subprocess.CompletedProcess(arguments, command.wait(), stdout, stderr)


def start(
    arguments: Sequence[object],
    cwd: Path,
    environment: Mapping[str, str] = {},
    packages: Path | None = None,
    *,
    script: str = "",
    imported: str = "",
    stdin: int = subprocess.DEVNULL,
    stdout: int = subprocess.PIPE,
    stderr: int = subprocess.PIPE,
) -> Command:
    """Start a command. streams: a descriptor, CLOSED, DEVNULL, or PIPE for what `communicate`
    gives. script: Python that runs with these arguments, in place of flashbench's command line.
    imported: a module that is imported already, beside torch."""
    path = [str(packages)] if packages else []
    ours = {"PYTHONPATH": os.pathsep.join([str(ROOT), *path])}
    request = {
        "arguments": list(map(str, arguments)),
        "directory": str(cwd),
        "environment": os.environ | ours | environment,
        "script": script,
    }
    with contextlib.ExitStack() as ours_to_close:
        given = [ours_to_close.enter_context(_opened(one)) for one in (stdin, stdout, stderr)]
        request["streams"] = [one is not None for one in given]
        answers, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours_to_close.enter_context(theirs)
        said = [
            os.dup(one) if way == subprocess.PIPE and one is not None else None
            for way, one in zip((stdout, stderr), given[1:], strict=True)
        ]
        handles = [theirs.fileno(), *(one for one in given if one is not None)]
        socket.send_fds(_server(imported)[1], [json.dumps(request).encode()], handles)
    return Command(int(answers.recv(100)), answers, said)


@contextlib.contextmanager
def _opened(stream: int) -> Iterator[int | None]:
    if stream == CLOSED:
        yield None
    elif stream == subprocess.DEVNULL:
        with Path(os.devnull).open("r+b", buffering=0) as nothing:
            yield nothing.fileno()
    elif stream == subprocess.PIPE:
        with tempfile.TemporaryFile(buffering=0) as file:
            yield file.fileno()
    else:
        yield stream


def _read(handle: int) -> str:
    with open(handle, "rb") as file:
        file.seek(0)
        return file.read().decode()


_servers: list[tuple[subprocess.Popen[bytes], socket.socket]] = []


@cache
def _server(imported: str) -> tuple[subprocess.Popen[bytes], socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-P", forked.__file__, str(ROOT), imported]
    with theirs:
        _servers.append((subprocess.Popen(command, stdin=theirs), ours))
    return _servers[-1]


def end() -> None:
    """End the processes that fork, and wait for them: their time counts as ours."""
    for process, requests in _servers:
        requests.close()
        process.wait()
    _servers.clear()
    _server.cache_clear()
