"""Directories that are gone when they are no longer used, even by a process that was killed."""

import contextlib
import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flashbench.files import remove_tree

_PREFIX = ".scratch."


@contextmanager
def scratch(parent: Path) -> Iterator[Path]:
    """A new directory in `parent`, removed at the end; those of dead processes are removed first.

    Whoever uses one holds a lock on its file, which the system lets go of when the process ends.
    """
    parent.mkdir(parents=True, exist_ok=True)
    with (parent / f"{_PREFIX}lock").open("w") as one_at_a_time:
        fcntl.flock(one_at_a_time, fcntl.LOCK_EX)
        for file in parent.glob(f"{_PREFIX}*/lock"):
            with contextlib.suppress(OSError), file.open("w") as held:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_tree(file.parent)
        base = Path(tempfile.mkdtemp(dir=parent, prefix=_PREFIX))
        mine = (base / "lock").open("w")
        fcntl.flock(mine, fcntl.LOCK_EX)
    try:
        (base / "files").mkdir()
        yield base / "files"
    finally:
        remove_tree(base)
        mine.close()
