"""Runs a command, keeps what it prints, and lets nothing that it started outlive it.

`supervise.py PARENT COMMAND...`, in a session of its own: run by its path, with the standard
library alone. It ends the command when that is asked for (SIGTERM), or when the process that asked
for it is gone. Processes that left the command's session are found too: the kernel hands orphans to
this one. All of that is Linux; elsewhere only the command's own process group is ended.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

HEAD_BYTES, TAIL_BYTES = 3_000_000, 500_000  # of what a command prints; it may print gigabytes

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_CHUNK = 1 << 16


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def kill_descendants() -> None:
    """End all children, their children and so on; those of this process are waited for.

    Whoever calls this may not wait for a child of its own afterwards.
    """
    spared: set[int] = set()  # not ours to kill
    while found := _descendants(os.getpid()) - spared:
        for process in found:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
            except PermissionError:
                spared.add(process)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.001)  # one may take its time to die


def _descendants(root: int) -> set[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            # PID (NAME) STATE PARENT ..., where NAME may hold spaces and brackets.
            state, parent = (
                (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
            )
            if state not in "ZX" or int(parent) == root:
                children.setdefault(int(parent), []).append(int(entry.name))
    found: set[int] = set()
    new = [root]
    while new:
        new = [
            child for process in new for child in children.get(process, []) if child not in found
        ]
        found.update(new)
    return found


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
        with contextlib.suppress(OSError):  # a full disk: whoever reads the log looks for that
            while part:
                part = part[os.write(self._descriptor, part) :]


def main(parent: int, command: list[str]) -> None:
    reader, writer = os.pipe()
    log = Log(sys.stdout.fileno())
    process: subprocess.Popen[bytes] | None = None

    def end(*_: object) -> None:
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # at once: it may fork as we look
        kill_descendants()
        os._exit(1)

    adopt_orphans()
    signal.signal(signal.SIGTERM, end)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before we asked
            sys.exit(1)
        with contextlib.suppress(OSError):  # where memory runs out, this is what has to go
            Path("/proc/self/oom_score_adj").write_text("500")
    process = subprocess.Popen(
        command, stdout=writer, stderr=subprocess.STDOUT, start_new_session=True
    )
    os.close(writer)

    def copy() -> None:
        while part := os.read(reader, _CHUNK):
            log.add(part)

    copying = threading.Thread(target=copy, daemon=True)
    copying.start()
    code = process.wait()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    kill_descendants()
    copying.join()  # nobody is left to print
    log.end()
    if code < 0:  # end as the command did
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
