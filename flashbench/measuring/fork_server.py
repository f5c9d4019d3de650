"""The process that others are forked from, workers or checks of revisions: it has imported torch,
and computes nothing.

A request is one byte with the descriptors of the fork's socket, of its output, and of a socket that
gets the fork's process number and, when it has ended, its exit status. The server ends with its
requests, and its forks end with it.
"""

import contextlib
import gc
import mmap
import os
import selectors
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from random import SystemRandom
from typing import Any, NoReturn

from flashbench.builds.keeper import adopt_orphans, kill_descendants
from flashbench.end_with_parent import end_with

_MOST_PAGES = 1 << 20  # that a gap in the address space may have
_MOST_HEAP_PAGES = 31  # malloc maps what is larger

_gaps: list[Any] = []  # of this process, kept


def main(handle: int, work: Callable[[int], None], *, sweeps: bool = False) -> None:
    """Serve requests from the socket `handle` until the parent closes it. work: what each fork does
    with its socket. sweeps: it forks one at a time, and before it reports the end of a fork, it
    ends every process that the fork started."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 1)  # what the import prints, and how it fails, is in the first fork's output
    os.dup2(nowhere, 2)
    gc.freeze()  # collections in forks would otherwise copy the pages of torch's objects
    if sweeps:
        adopt_orphans()
        signal.signal(signal.SIGTERM, lambda *_: _end(sweeps))
    requests = socket.socket(fileno=handle)
    selector = selectors.DefaultSelector()
    selector.register(requests, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is requests:
                request, handles, _, _ = socket.recv_fds(requests, 1, 3)
                if not request:
                    _end(sweeps)
                _fork(work, handles, selector)
            else:
                _report(key, selector, sweeps)


def _end(sweeps: bool) -> NoReturn:
    if sweeps:
        kill_descendants()
    os._exit(0)  # taking torch down takes a second


def _fork(
    work: Callable[[int], None], handles: list[int], selector: selectors.BaseSelector
) -> None:
    server = os.getpid()
    child = os.fork()
    if not child:
        _be_forked(work, server, handles, selector)
    with contextlib.suppress(OSError):  # it has done so itself, or ended
        os.setpgid(child, child)
    for handle in handles[:2]:
        os.close(handle)
    answers = socket.socket(fileno=handles[2])
    with contextlib.suppress(BrokenPipeError):
        answers.send(str(child).encode())
    selector.register(os.pidfd_open(child), selectors.EVENT_READ, (child, answers))


def _report(key: selectors.SelectorKey, selector: selectors.BaseSelector, sweeps: bool) -> None:
    child, answers = key.data
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    selector.unregister(key.fileobj)
    os.close(key.fd)
    if sweeps:
        kill_descendants()
    with answers, contextlib.suppress(BrokenPipeError):
        answers.send(str(code).encode())


def _be_forked(
    work: Callable[[int], None], server: int, handles: list[int], selector: selectors.BaseSelector
) -> NoReturn:
    """Do the work as a process started on its own would, and exit."""
    code = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        end_with(server)
        os.setpgid(0, 0)  # the parent kills the group
        connection, output, answers = handles
        os.dup2(output, 1)
        os.dup2(output, 2)
        for key in selector.get_map().values():  # of the server and of other forks
            os.close(key.fd)
            if key.data:
                key.data[1].close()
        selector.close()
        os.close(output)
        os.close(answers)
        _move()
        work(connection)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):  # the stream may be another by now
            sys.stdout.flush()
        os._exit(code)


def _move() -> None:
    """Put what this process will map and allocate at other addresses than its siblings': a process
    that is started for itself gets random ones, and times depend on them."""
    random = SystemRandom()
    with contextlib.suppress(OSError, ValueError):  # address space may be limited
        size = random.randint(1, _MOST_PAGES) * mmap.PAGESIZE
        _gaps.append(mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ))
    _gaps.append(bytearray(random.randint(0, _MOST_HEAP_PAGES) * mmap.PAGESIZE))
