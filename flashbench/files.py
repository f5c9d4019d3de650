"""Atomic writes that keep links and devices, and robust directory removal.

A name from the user (`write_file`) may be a symbolic link, which is kept and its target replaced,
or a device or pipe, which is written to. A name of our own inside a folder (`replace_file`) is a
regular file: a link there may have come with an untrusted repository and lead anywhere.
"""

import contextlib
import errno
import os
import re
import secrets
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

from flashbench.inputs import descriptor, kind

LEFTOVER = ".part"  # ends the names of files that a killed writer left
_LEFTOVER_NAME = re.compile(rf"\..{{1,50}}\.[0-9a-f]{{8}}{re.escape(LEFTOVER)}", re.DOTALL)
_MOST_LINKS = 40  # as many as the kernel follows


def replace_file(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Atomically replace one of our files: a kill at any moment leaves the old or the new one.

    durable: so does a machine crash; slow, and unnecessary for what can be regenerated. Creates a
    missing folder; keeps an existing file's mode and owner. Raises OSError, also if the path is not
    a regular file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    old = _status(path)
    if old is not None and not stat.S_ISREG(old.st_mode):
        what = f"it is {kind(old)}, and only regular files are replaced"
        raise OSError(errno.EINVAL, what, str(path))
    if old is not None and not os.access(path, os.W_OK):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    temporary = path.with_name(f"{leftover_prefix(path.name)}{secrets.token_hex(4)}{LEFTOVER}")
    try:
        # Created with the umask and the folder's default permissions, like any program's file.
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with os.fdopen(handle, "wb") as file:
            if old is not None:
                _keep_owner(handle, old)
            file.write(content)
            file.flush()
            if durable:
                os.fsync(handle)
        temporary.replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):
            error.filename, error.filename2 = str(path), None  # not of a file nobody knows
        raise


def write_file(path: Path, content: bytes) -> None:
    """Write to the user's file name: a regular file, even behind links, is replaced; a character
    device or pipe is written to. Raises OSError, also for a pipe without a reader."""
    target = _followed(path)
    if isinstance(target, Path) and _is_to_replace(target):
        replace_file(target, content)
        return
    with os.fdopen(_open_stream(target), "wb") as file:
        file.write(content)


@contextlib.contextmanager
def stream_open(path: Path) -> Iterator[None]:
    """Keep a character device or pipe open until it is written, so its reader sees no end before.

    Raises OSError if writing is bound to fail: a pipe without a reader, a device that refuses even
    a zero-byte write.
    """
    handle = _open_stream(_followed(path))
    try:
        os.write(handle, b"")
        yield
    finally:
        os.close(handle)


def regular_target(path: Path) -> Path | None:
    """The regular file, existing or not, that a name resolves to; None: a character device or pipe.

    Raises OSError for an unwritable target: a folder, a disk, a loop of links.
    """
    target = _followed(path)
    return target if isinstance(target, Path) and _is_to_replace(target) else None


def leftover_prefix(name: str) -> str:
    """The prefix of temporary files of a writer of the file `name`."""
    return f".{name[:50]}."  # the name may already be as long as the system allows


def is_leftover(name: str) -> bool:
    """Whether a file name is that of any writer's temporary file."""
    return _LEFTOVER_NAME.fullmatch(name) is not None


def remove_leftovers(path: Path) -> None:
    """Remove the leftovers of killed writers of `path`; call it only while nobody writes there."""
    with contextlib.suppress(OSError):
        for entry in path.parent.iterdir():
            if entry.name.startswith(leftover_prefix(path.name)) and entry.name.endswith(LEFTOVER):
                entry.unlink()


def remove_tree(path: Path) -> None:
    """Remove a directory, whatever a build left there; skip what cannot be removed."""
    if not os.path.lexists(path):
        return
    try:
        shutil.rmtree(path)
    except (OSError, RecursionError):  # directories without permissions, or nested by the thousand
        for command in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
            subprocess.run([*command, "--", str(path)], capture_output=True)


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except FileNotFoundError:
        return None


def _keep_owner(handle: int, old: os.stat_result) -> None:
    """Keep owner and group if the system lets us, and the mode (which `chown` may change)."""
    new = os.fstat(handle)
    with contextlib.suppress(PermissionError):
        if new.st_gid != old.st_gid:
            os.fchown(handle, -1, old.st_gid)
        if new.st_uid != old.st_uid:
            os.fchown(handle, old.st_uid, -1)
    os.fchmod(handle, stat.S_IMODE(old.st_mode))


def _followed(path: Path) -> Path | int:
    """Where a name leads through symbolic links: a path, or a file that this process has open."""
    for _ in range(_MOST_LINKS):
        path = Path(os.path.realpath(path.parent)) / path.name
        number = descriptor(path)
        if number is not None:
            return number
        if not path.is_symlink():
            return path
        path = path.parent / path.readlink()
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def _is_to_replace(target: Path) -> bool:
    """Whether it is a regular file or absent, rather than a character device or pipe."""
    status = _status(target)
    if status is None or stat.S_ISREG(status.st_mode):
        return True
    if stat.S_ISCHR(status.st_mode) or stat.S_ISFIFO(status.st_mode):
        return False
    raise OSError(errno.EINVAL, f"it is {kind(status)}", str(target))


def _open_stream(target: Path | int) -> int:
    if isinstance(target, int):  # not reopened: what was written there before stays
        return os.dup(target)
    try:
        handle = os.open(target, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:
            error.strerror = "this pipe has no reader; start it first"
        raise
    os.set_blocking(handle, True)
    return handle
