"""Directories that are gone when they are no longer used, even by a process that was killed."""

import contextlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flashbench import locks
from flashbench.files import remove_tree

_PREFIX = ".scratch."


@contextmanager
def scratch(parent: Path) -> Iterator[Path]:
    """A new directory in `parent`, removed at the end; those of dead processes are removed first.

    Its user holds a lock on its file, which the system releases when the process ends.
    """
    parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as mine:
        with _alone(parent):
            base = Path(tempfile.mkdtemp(dir=parent, prefix=_PREFIX))
            mine.enter_context(locks.exclusive(base / "lock"))
        try:
            (base / "files").mkdir()
            yield base / "files"
        finally:
            remove_tree(base)


def sweep(parent: Path) -> None:
    """Remove what dead processes left, where there is such a directory. Raises OSError."""
    if list(parent.glob(f"{_PREFIX}*/")):
        with _alone(parent):
            pass


@contextmanager
def _alone(parent: Path) -> Iterator[None]:
    """Within it no other process makes or removes a directory; those of dead ones are gone."""
    with locks.exclusive(parent / f"{_PREFIX}lock"):
        for directory in parent.glob(f"{_PREFIX}*/"):
            # One without the file was made by a process that got no further.
            with (
                contextlib.suppress(OSError, locks.BusyError),
                locks.exclusive(directory / "lock", wait=False),
            ):
                remove_tree(directory)
        yield
