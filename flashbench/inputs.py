"""Open untrusted files for reading, without ever waiting for a pipe, device or socket."""

import errno
import io
import os
import re
import stat
from functools import cache
from pathlib import Path
from typing import BinaryIO

from flashbench.errors import InvalidInputError

_STANDARD = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_PART = 1 << 20
_MOST_PARTS = 1 << 15  # of a pipe


def read_input(path: Path, limit: int, what: str) -> bytes:
    """The content of a file. what: the expected kind of file, for the error message if it is too
    large.

    Raises InvalidInputError if it is not a regular file (see `open_input`), cannot be read, or has
    more than `limit` bytes.
    """
    content = b""
    try:
        with open_input(path) as file:
            size = file.seek(0, os.SEEK_END)
            if size <= limit:
                file.seek(0)
                content = file.read(size + 1)  # grows by replacement, not in place
    except (OSError, ValueError) as error:  # ValueError: not a possible file name
        raise InvalidInputError(f"{path}: cannot be read: {reason(error)}") from None
    if max(size, len(content)) > limit:
        raise InvalidInputError(f"{path}: too large for {what} (limit {limit} bytes)")
    return content


def open_input(path: Path) -> BinaryIO:
    """Open a regular file for reading.

    A pipe is read to its end if the user passed it open, such as `/dev/stdin` or the `/dev/fd/N` of
    a shell's `<(...)`. Raises OSError, ValueError.
    """
    number = descriptor(path)
    if number is not None:
        return io.BytesIO(_read_open(number, os.fstat(number).st_ino))
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        _require_regular(handle)
    except BaseException:
        os.close(handle)
        raise
    return os.fdopen(handle, "rb")


def descriptor(path: Path) -> int | None:
    """The descriptor behind a name such as `/dev/stdin` or `/dev/fd/3`."""
    text = os.path.normpath(path.absolute())
    if text in _STANDARD:
        return _STANDARD[text]
    folder, name = os.path.split(text)
    folders = ("/dev/fd", "/proc/self/fd", f"/proc/{os.getpid()}/fd")
    return int(name) if folder in folders and name.isascii() and name.isdecimal() else None


def kind(status: os.stat_result) -> str:
    """The kind of a file system entry, in words."""
    kinds = {
        stat.S_IFDIR: "a directory",
        stat.S_IFLNK: "a symbolic link",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a disk",
    }
    return kinds.get(stat.S_IFMT(status.st_mode), "a regular file")


def reason(error: Exception) -> str:
    """The system's message about a file, without its name; for several, as from copying a folder,
    the first.

    ValueError means a name that no file can have.
    """
    if isinstance(error, OSError):
        text = error.strerror or (error.args[0] if error.args else "")
        while isinstance(text, list | tuple):  # shutil's: (from, to, the error's text) each
            text = text[-1] if isinstance(text, tuple) else text[0]
        found = re.match(r"\[Errno \d+\] ([^:]+)", str(text))
        return found[1] if found else str(text)
    return "no file can have this name" if isinstance(error, ValueError) else str(error)


@cache  # a second read of a pipe gives the same bytes; another pipe may get its number
def _read_open(number: int, _pipe: int) -> bytes:
    if not stat.S_ISFIFO(os.fstat(number).st_mode):
        _require_regular(number)
    parts: list[bytes] = []
    while len(parts) < _MOST_PARTS and (data := os.read(number, _PART)):
        parts.append(data)
    return b"".join(parts)


def _require_regular(handle: int) -> None:
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, f"it is {kind(status)}, not a regular file")
