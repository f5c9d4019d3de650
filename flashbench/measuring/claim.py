"""Claim the run file that a command writes: one process at a time, resumed or refused, never
replaced without --force."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from flashbench import locks
from flashbench.errors import InvalidInputError, NotMeasuredError
from flashbench.files import regular_target, remove_leftovers, stream_open
from flashbench.inputs import reason
from flashbench.runfile import RunFile, read
from flashbench.streams import Tell

_Content = TypeVar("_Content")


def claimed(
    path: Path, flag: str, *, force: bool, tell: Tell
) -> AbstractContextManager[RunFile | None]:
    """`claimed_as` of a run file."""
    return claimed_as(read, path, flag, force=force, tell=tell)


@contextmanager
def claimed_as(
    read: Callable[[Path], _Content],
    path: Path,
    flag: str,
    *,
    force: bool,
    tell: Tell,
) -> Iterator[_Content | None]:
    """Lock the file `path` against other processes; yields what it holds, if anything.

    read: reads and validates it. flag: the option that names the file. force: ignore the existing
    file, and replace it once something was measured. tell: prints a line. A device or pipe is not
    locked, and is kept open.
    Raises InvalidInputError if the file cannot be written, or holds anything but a run;
    NotMeasuredError if another process is writing it.
    """
    target = _writable(path, flag)
    with ExitStack() as held:
        if target is None:
            try:
                held.enter_context(stream_open(path))
            except OSError as error:
                raise _not_writable(path, flag, error) from None
            yield None
            return
        try:
            held.enter_context(locks.exclusive(lock_of(target), wait=False))
        except locks.BusyError as holder:
            raise NotMeasuredError(
                f"{path}: {holder} is writing it; wait for it, or name another file with {flag}"
            ) from None
        except OSError as error:
            if error.errno not in locks.UNSUPPORTED:
                raise _not_writable(path, flag, error) from None
            tell(f"{path}: its file system has no locks: keep other processes from writing it")
        remove_leftovers(target)
        yield None if force else _held(read, path, target, flag)


def new_run_file(prefix: str) -> Path:
    """A new file for an unnamed run: `prefix` and the time in UTC; never one that another process
    is about to write."""
    name = f"{prefix}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    path, count = Path(f"{name}.json"), 1
    while path.exists() or lock_of(path).exists():
        count += 1
        path = Path(f"{name}-{count}.json")
    return path


def lock_of(target: Path) -> Path:
    """The lock of a run file, beside it."""
    return target.with_name(f".{target.name[:50]}.lock")


def _writable(path: Path, flag: str) -> Path | None:
    """The file's path, or None for a device or pipe; checked before anything is measured."""
    try:
        target = regular_target(path)
        if target is not None:
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=target.parent):
                pass
            if target.exists():
                with target.open("ab"):
                    pass
    except OSError as error:
        raise _not_writable(path, flag, error) from None
    return target


def _not_writable(path: Path, flag: str, error: OSError) -> InvalidInputError:
    return InvalidInputError(
        f"{path}: cannot be written ({reason(error)}); name another file with {flag}"
    )


def _held(read: Callable[[Path], _Content], path: Path, target: Path, flag: str) -> _Content | None:
    if not target.exists() or not target.stat().st_size:  # as made by `mktemp`
        return None
    try:
        return read(path)
    except InvalidInputError as error:
        raise InvalidInputError(
            f"{error}; name another file with {flag}, or replace this one with --force"
        ) from None
