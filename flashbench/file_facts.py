"""What the system knows of a file, by which changes are found without reading it, as git does."""

from pathlib import Path
from typing import NamedTuple

SETTLED = 2.0  # seconds after which a file's next change has another time on any file system


class FileFacts(NamedTuple):
    """Its size in bytes and its times in nanoseconds: of its content, and of its inode, which no
    program can set."""

    size: int
    modified: int
    changed: int

    def settled(self, now: float) -> bool:
        """Whether any change after `now`, in seconds since 1970, changes the facts."""
        return max(self.modified, self.changed) < (now - SETTLED) * 1e9


def facts_of(path: Path) -> FileFacts:
    """The facts of the file behind any links. Raises OSError."""
    found = path.stat()
    return FileFacts(found.st_size, found.st_mtime_ns, found.st_ctime_ns)
