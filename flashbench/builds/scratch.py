"""Temporary directories that are removed even if their process was killed."""

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
    """A new directory in `parent`, removed at the end; leftovers of dead processes are removed
    first.

    Its user holds a lock file, which the system releases when the process ends.
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
    """Remove what dead processes left, if the directory exists. Raises OSError."""
    if list(parent.glob(f"{_PREFIX}*/")):
        with _alone(parent):
            pass


@contextmanager
def _alone(parent: Path) -> Iterator[None]:
    """Keep others from creating or removing directories; remove those of dead processes."""
    with locks.exclusive(parent / f"{_PREFIX}lock"):
        for directory in parent.glob(f"{_PREFIX}*/"):
            # One without the file belongs to a process that got no further.
            with (
                contextlib.suppress(OSError, locks.BusyError),
                locks.exclusive(directory / "lock", wait=False),
            ):
                remove_tree(directory)
        yield
