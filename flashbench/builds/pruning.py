"""The size of the build cache, and pruning: first entries unused for long, then the least recently
used, until it is small enough.

A process that builds, or measures a build, holds `.use.lock` shared until it ends; nothing is
removed meanwhile. An entry's time is that of its last use.
"""

import contextlib
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

from flashbench import locks
from flashbench.builds.scratch import sweep
from flashbench.errors import NotMeasuredError
from flashbench.files import remove_tree

_LOCK = ".use.lock"
_ENTRY = re.compile(r"(site-)?[0-9a-f]{32}")


@dataclass(frozen=True)
class Entry:
    """A build, an import root, the run files of a bisection, or what was read of a results folder.

    used: seconds since 1970.
    """

    path: Path
    size: int
    used: float


def use(cache: Path) -> None:
    """Keep the cache from being pruned until this process ends."""
    with contextlib.suppress(OSError):  # a cache that cannot be written cannot be pruned either
        locks.share_until_exit(cache / _LOCK)


def touch(directory: Path) -> None:
    """Record that an entry is being used."""
    with contextlib.suppress(OSError):
        os.utime(directory)


def entries(cache: Path) -> list[Entry]:
    """All entries, least recently used first. Raises OSError if the cache cannot be read."""
    found = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        places = [path for path in cache.iterdir() if _ENTRY.fullmatch(path.name)]
        kept = [*(cache / "bisect").glob("*/"), *(cache / "results").glob("*/")]
        for path in [*places, *kept]:
            with contextlib.suppress(OSError):
                found.append(Entry(path, _size(path), path.stat().st_mtime))
    return sorted(found, key=lambda entry: entry.used)


def prune(cache: Path, max_age: float, max_bytes: float) -> list[Entry]:
    """Remove entries unused for `max_age` seconds, and more until at most `max_bytes` are left;
    returns them. The records of commits (`flashbench builds`) stay.

    Raises NotMeasuredError while another process uses the cache, OSError if it cannot be written.
    """
    if not cache.is_dir():
        return []
    try:
        with locks.exclusive(cache / _LOCK, wait=False, remove=False):
            return _prune(cache, time.time() - max_age, max_bytes)
    except locks.BusyError:
        raise NotMeasuredError(
            f"the build cache {cache} is in use by another process; prune it later"
        ) from None


def _prune(cache: Path, oldest: float, max_bytes: float) -> list[Entry]:
    sweep(cache)
    found = entries(cache)
    left = sum(entry.size for entry in found)
    removed = []
    for entry in found:
        if entry.used < oldest or left > max_bytes:
            remove_tree(entry.path)
            left -= entry.size
            removed.append(entry)
    for short_cut in (cache / "known").glob("[0-9a-f]*"):
        key = short_cut.read_text(encoding="ascii", errors="replace")
        if not any((cache / name).exists() for name in (key, f"site-{key}")):
            short_cut.unlink()
    for pattern in ("[!.]*.lock", "bisect/*.lock"):  # of dead processes: nobody else is here
        for lock in cache.glob(pattern):
            lock.unlink()
    return removed


def _size(directory: Path) -> int:
    total = 0
    for folder, _, files in os.walk(directory):
        for name in files:
            with contextlib.suppress(OSError):
                total += (Path(folder) / name).lstat().st_blocks * 512
    return total
