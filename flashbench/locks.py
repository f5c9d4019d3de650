"""Locks between processes, by `flock`: the system releases a lock when its process ends, however it
ends, so none is ever stale.

A forked child closes its parent's locks at once, and an executed one never has them: nobody holds a
lock on behalf of a dead process. The file of an exclusive lock names its holder, only for messages,
and is removed with it.
"""

import contextlib
import errno
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

# Errors of file systems without locks: some network and user-space ones.
UNSUPPORTED = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL}
_HOLDER_BYTES = 1000

_held: set[int] = set()  # by this process
_shared: set[Path] = set()


class Holder(msgspec.Struct, kw_only=True, frozen=True):
    """The holder of a lock. since: ISO 8601, UTC."""

    pid: int
    host: str
    since: str

    def __str__(self) -> str:
        where = "" if self.host == socket.gethostname() else f" on {self.host}"
        return f"process {self.pid}{where} since {self.since}"


_HOLDER = msgspec.json.Decoder(Holder)


class BusyError(Exception):
    """Another process has the lock; the message names it and says since when."""


@contextmanager
def exclusive(path: Path, *, wait: bool = True, remove: bool = True) -> Iterator[None]:
    """Hold the lock `path` exclusively; creates its folder.

    wait: for another holder, instead of raising BusyError. remove: delete the file at the end.
    Raises OSError if it cannot be created or locked (`UNSUPPORTED`).
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        handle = _taken(path, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        if _is_at(handle, path):
            break
        _close(handle)  # its holder removed it
    try:
        _sign(handle)
        yield
    finally:
        if handle in _held:  # not in a child forked meanwhile
            if remove:
                with contextlib.suppress(OSError):
                    path.unlink()
            _close(handle)


def share_until_exit(path: Path) -> None:
    """Hold the lock `path`, shared with others, until this process ends. Raises OSError."""
    if path not in _shared:
        _taken(path, fcntl.LOCK_SH)
        _shared.add(path)


def _taken(path: Path, how: int) -> int:
    """The open and locked file."""
    flags = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o666)
    except PermissionError:  # another user's file; that user may hold the lock
        handle = os.open(path, os.O_RDONLY | flags)
    try:
        fcntl.flock(handle, how)
    except BlockingIOError:
        holder = _holder(handle)
        os.close(handle)
        raise BusyError(str(holder or "another process")) from None
    except BaseException:
        os.close(handle)
        raise
    _held.add(handle)
    return handle


def _is_at(handle: int, path: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(handle), path.stat())
    return False


def _sign(handle: int) -> None:
    now = datetime.now(UTC).isoformat(sep=" ", timespec="seconds")
    me = Holder(pid=os.getpid(), host=socket.gethostname(), since=now)
    with contextlib.suppress(OSError):  # another user's file, or a full disk: still a lock
        os.ftruncate(handle, 0)
        os.pwrite(handle, msgspec.json.encode(me) + b"\n", 0)


def _holder(handle: int) -> Holder | None:
    with contextlib.suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
        return _HOLDER.decode(os.pread(handle, _HOLDER_BYTES, 0))
    return None


def _close(handle: int) -> None:
    _held.discard(handle)
    os.close(handle)


def _close_in_child() -> None:
    for handle in _held:
        os.close(handle)
    _held.clear()
    _shared.clear()


os.register_at_fork(after_in_child=_close_in_child)
