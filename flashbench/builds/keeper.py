"""Run a command and leave no process behind, neither after it nor after the requesting process.

`keeper.py PARENT COMMAND...`, in its own session: run by path, with only the standard library. It
ends the command on SIGTERM, or when PARENT is gone, and then exits as the command did. It adopts
orphans, so processes that left the command's session are found too. If the command kills its keeper
as well, a guard, which is not its ancestor, kills every process with the keeper's mark in its
environment, and holds stdout open until that is done.

A process escapes if it kills all its ancestors, or the guard, and removes its mark. All of this is
Linux only; elsewhere only the command itself is ended.
"""

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_LINUX = sys.platform == "linux"
_LOOK_SECONDS = 0.1  # after the parent; the end of the command is seen at once
_MARK = "FLASHBENCH_KEPT_BY"


def adopt_orphans() -> None:
    """Become the parent of every descendant whose parent ends."""
    if _LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def kill_descendants() -> None:
    """End all children, their children and so on; those of this process are waited for.

    The caller may not wait for a child of its own afterwards.
    """
    _kill_all(lambda: _descendants(os.getpid()))


def _kill_all(find: Callable[[], set[int]]) -> None:
    spared: set[int] = set()  # not ours to kill
    while found := find() - spared:
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
    for entry in _processes():
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


def _marked(mark: str, known: set[int]) -> set[int]:
    """Processes that inherited the mark, and have not ended."""
    wanted = f"{_MARK}={mark}".encode()
    found = {process for process in known if _is_alive(process)}
    for entry in _processes():
        with contextlib.suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.add(int(entry.name))
    known |= found  # a dying process has no environment
    return found


def _is_alive(process: int) -> bool:
    try:
        text = Path(f"/proc/{process}/stat").read_text(errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


def _processes() -> Iterator[Path]:
    return Path("/proc").glob("[0-9]*")


def main(parent: int, command: list[str]) -> None:
    keeper = os.getpid()
    child = 0

    def end(*_: object) -> NoReturn:
        if child and not _LINUX:
            os.kill(child, signal.SIGTERM)
        kill_descendants()
        os._exit(1)

    signal.signal(signal.SIGTERM, end)
    adopt_orphans()
    mark = os.urandom(16).hex()
    if _LINUX:
        alive, kept = os.pipe()
        if not os.fork():
            os.close(kept)
            _guard(alive, mark)
        os.close(alive)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])  # so that it can be waited for
    child = os.fork()
    if not child:
        _execute(command, keeper, mark)
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        if os.getppid() != parent:
            end()
        if _LINUX:
            signal.sigtimedwait([signal.SIGCHLD], _LOOK_SECONDS)
        else:
            time.sleep(_LOOK_SECONDS)
    kill_descendants()
    code = os.waitstatus_to_exitcode(status)
    if code < 0:  # end as the command did
        if -code not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(keeper, -code)
    os._exit(code)


def _guard(alive: int, mark: str) -> NoReturn:
    """Outlive the keeper, and end what it left. A keeper that exits normally ends its guard
    first."""
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.read(alive, 1)  # the end of it: nobody writes
    known: set[int] = set()
    _kill_all(lambda: _marked(mark, known))
    os._exit(0)


def _execute(command: list[str], keeper: int, mark: str) -> NoReturn:
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        if _LINUX:
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != keeper:  # it died before the request
                os._exit(1)
            with contextlib.suppress(OSError):  # if memory runs out, this process should go
                Path("/proc/self/oom_score_adj").write_text("500")
        os.environ[_MARK] = mark
        os.execvp(command[0], command)  # noqa: S606 (no shell: that is the point)
    finally:
        os._exit(127)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
