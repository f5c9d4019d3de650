"""Write a folder of files incrementally.

`.flashbench-site.json` in the folder lists the site's files with a key of their inputs. A file
whose key is unchanged is neither made nor written again, one that left the site is removed, and
files that are not listed are never touched. A `Summary` says what the whole site was made of.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import msgspec

from flashbench import locks
from flashbench.damaged_files import UNREADABLE, damage
from flashbench.errors import InvalidInputError
from flashbench.files import LEFTOVER, leftover_prefix, replace_file
from flashbench.inputs import open_input
from flashbench.parallel import spread

MANIFEST = ".flashbench-site.json"
_LOCK = ".flashbench-site.lock"
_FORMAT = "flashbench-site"
_MANY = 200  # files from which parallel processes pay
_MAX_BYTES = 2**28


class Summary(msgspec.Struct, frozen=True):
    """A whole site. inputs: the key of what it was made of, "" if unknown; commits, series: their
    numbers; notes: what was skipped, one line each."""

    inputs: str = ""
    commits: int = 0
    series: int = 0
    notes: tuple[str, ...] = ()


class Published(NamedTuple):
    """A site, its number of files, and of those written or removed this time."""

    summary: Summary
    files: int
    written: int = 0
    removed: int = 0


class _Manifest(msgspec.Struct, kw_only=True):
    format: str = _FORMAT
    version: int = 1
    files: dict[str, str] = {}  # path -> key; "" while the file is being replaced
    summary: Summary = Summary()


_MANIFEST = msgspec.json.Decoder(_Manifest)


class Site:
    """The open folder, from `opened`: `put` each file of the site, then `write`."""

    def __init__(self, root: Path, known: dict[str, str]) -> None:
        self.root = root
        self._known = known
        self._there = _listed(root)
        self._pending: dict[str, tuple[str, Callable[[], bytes]]] = {}
        self._keys: dict[str, str] = {}
        self._listing: set[str] = set()

    def put(self, path: str, key: str, make: Callable[[], bytes], *, listing: bool = False) -> None:
        """Add a file of the site. make: returns its bytes, called only if `key` has changed.
        listing: it links to other files, so it is written after them."""
        self._keys[path] = key
        if listing:
            self._listing.add(path)
        if self._known.get(path) != key or path not in self._there:
            self._pending[path] = (key, make)

    def write(self, summary: Summary, inputs: Callable[[], str] = str) -> Published:
        """Write changed files and remove old ones. inputs: those of the summary, then."""
        gone = self._known.keys() - self._keys.keys()
        # If a publisher is killed half way, the next one considers nothing up to date.
        doubtful = dict.fromkeys([*gone, *self._pending], "")
        self._save({**self._known, **doubtful}, Summary())
        for directory in {(self.root / path).parent for path in self._pending}:
            directory.mkdir(parents=True, exist_ok=True)
        pending = [(path, make) for path, (_, make) in self._pending.items()]
        # Pages that list others come after them: an interrupted publish leaves a consistent site.
        listing = [one for one in pending if one[0] in self._listing]
        others = [one for one in pending if one[0] not in self._listing]
        spread(lambda number: self._make(*others[number]), len(others), least=_MANY)
        for path, make in listing:
            self._make(path, make)
        gone |= self._halves()
        for path in gone:
            (self.root / path).unlink(missing_ok=True)
        summary = msgspec.structs.replace(summary, inputs=inputs())
        self._save(self._keys, summary)
        return Published(summary, len(self._keys), len(self._pending), len(gone))

    def _make(self, path: str, make: Callable[[], bytes]) -> None:
        replace_file(self.root / path, make(), durable=False)

    def _halves(self) -> set[str]:
        """Files that a killed publisher left half written."""
        halves = [PurePosixPath(path) for path in self._there if path.endswith(LEFTOVER)]
        if not halves:  # as nearly always; the rest takes longer
            return set()
        ours = [PurePosixPath(path) for path in (*self._known, *self._keys, MANIFEST)]
        prefixes = {(path.parent, leftover_prefix(path.name)) for path in ours}
        return {
            str(path)
            for path in halves
            if (path.parent, f"{path.name.removesuffix(LEFTOVER).rpartition('.')[0]}.") in prefixes
        }

    def _save(self, files: dict[str, str], summary: Summary) -> None:
        manifest = msgspec.json.encode(_Manifest(files=files, summary=summary))
        replace_file(self.root / MANIFEST, manifest, durable=False)


@contextmanager
def opened(root: Path) -> Iterator[Site]:
    """Open the site in the folder `root`, creating and locking it.

    Raises InvalidInputError if the folder has files but is not a site, or cannot be written.
    """
    try:
        root.mkdir(parents=True, exist_ok=True)
        known = _known(root)
        with locks.exclusive(root / _LOCK):
            yield Site(root, (known or _known(root) or _Manifest()).files)
    except OSError as error:
        name = error.filename or root
        fix = "name another folder with --output"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            fix = "free some space and publish again; what was there before still opens"
        raise InvalidInputError(f"{name}: cannot be written: {error.strerror}; {fix}") from None


def unchanged(root: Path, inputs: str) -> Published | None:
    """The site in the folder `root`, if it is whole and was made of these inputs. Raises
    InvalidInputError as `opened` does."""
    known = _known(root) if inputs and root.is_dir() else None
    if known is None or known.summary.inputs != inputs or not known.files.keys() <= _listed(root):
        return None
    return Published(known.summary, len(known.files))


def _known(root: Path) -> _Manifest | None:
    """The manifest; None in an empty folder."""
    path = root / MANIFEST
    try:
        with open_input(path) as file:
            manifest = _MANIFEST.decode(file.read(_MAX_BYTES))
        if (manifest.format, manifest.version) != (_FORMAT, 1):
            raise ValueError("another format or version")
        if not all(map(_inside, manifest.files)):
            raise ValueError("it lists files outside the folder")
    except FileNotFoundError:
        if any(entry.name != _LOCK for entry in root.iterdir()):
            raise InvalidInputError(
                f"{root}: has files that are no site of flashbench; name a new or empty folder "
                "with --output"
            ) from None
        return None
    except UNREADABLE as error:
        raise InvalidInputError(
            f"{path}: damaged list of the site's files ({damage(error)}); delete the folder {root}"
        ) from None
    return manifest


def _inside(path: str) -> bool:
    pure = PurePosixPath(path)
    return bool(pure.parts) and not pure.is_absolute() and ".." not in pure.parts


def _listed(root: Path) -> set[str]:
    found: set[str] = set()
    for directory, _, names in os.walk(root):
        base = os.path.relpath(directory, root)
        found.update(names if base == "." else (f"{base}/{name}" for name in names))
    return found
