"""Run a command, keep the head and the tail of its output, and report how it ended.

`supervise.py ANSWER COMMAND...`: run by path, with only the standard library, by a keeper
(keeper.py), which ends what the command leaves behind. ANSWER is a descriptor that the command does
not inherit; its exit code is written there last. Nothing there means that the command, or the
system, killed this process.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys

HEAD_BYTES, TAIL_BYTES = 3_000_000, 500_000  # kept of a command's output, which may be gigabytes

_CHUNK = 1 << 16
_MOST_CHUNKS = 32  # more than any pipe holds


class Log:
    """The head and the tail of a stream, written to a file descriptor."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._room = HEAD_BYTES
        self._tail = bytearray()
        self._left_out = 0

    def add(self, part: bytes) -> None:
        head, rest = part[: self._room], part[self._room :]
        self._room -= len(head)
        self._write(head)
        self._tail += rest
        if len(self._tail) > 2 * TAIL_BYTES:
            self._drop()

    def end(self) -> None:
        """Write the tail."""
        if len(self._tail) > TAIL_BYTES:
            self._drop()
        if self._left_out:
            self._write(f"\n[{self._left_out} bytes left out]\n".encode())
        self._write(bytes(self._tail))

    def _drop(self) -> None:
        self._left_out += len(self._tail) - TAIL_BYTES
        del self._tail[:-TAIL_BYTES]

    def _write(self, part: bytes) -> None:
        with contextlib.suppress(OSError):  # a full disk: the reader of the log checks for that
            while part:
                part = part[os.write(self._descriptor, part) :]


def main(answer: int, command: list[str]) -> None:
    reader, writer = os.pipe()
    woken, wake = os.pipe()
    for end in (reader, wake):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    log = Log(sys.stdout.fileno())
    process = subprocess.Popen(
        command, stdout=writer, stderr=subprocess.STDOUT, start_new_session=True
    )
    os.close(writer)

    def end_group(*_: object) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)

    signal.signal(signal.SIGTERM, end_group)
    opened = [reader]
    while process.poll() is None:
        ready, _, _ = select.select([*opened, woken], [], [])
        if reader in ready and not _copy(reader, log):
            opened = []  # it closed its output, but may be alive
    end_group()
    for _ in range(_MOST_CHUNKS):  # a process that left the session may print forever
        if not _copy(reader, log):
            break
    log.end()
    os.write(answer, str(process.returncode).encode())
    os._exit(0)


def _copy(reader: int, log: Log) -> bool:
    """Copy output; False if there is none now, or ever."""
    try:
        part = os.read(reader, _CHUNK)
    except BlockingIOError:
        return False
    log.add(part)
    return bool(part)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
