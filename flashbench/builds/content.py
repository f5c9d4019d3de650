"""Hashes of what lies in a directory: of files as they are, and of the libraries among them."""

import contextlib
import hashlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path


def content_hash(root: Path, paths: Sequence[str] = ()) -> str:
    """Hash of names, contents, executable bits and links below `root`; 64 hexadecimal digits.

    paths: only these files and directories, relative to `root`, and what symbolic links among them
    lead to in `root`; none: everything.
    """
    total = hashlib.sha256()
    for name, path in sorted(_files(root, paths).items()):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            kind, content = b"link", os.fsencode(path.readlink())
        else:
            kind = b"program" if mode & stat.S_IXUSR else b"file"
            content = file_hash(path).digest()
        for part in (name, kind, content):
            total.update(len(part).to_bytes(8, "little") + part)
    return total.hexdigest()


def file_hash(path: Path) -> "hashlib._Hash":
    """SHA-256 of a file, which may be larger than memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256")


def _files(root: Path, paths: Sequence[str]) -> dict[bytes, Path]:
    found: dict[bytes, Path] = {}
    left, seen = [Path(path) for path in paths] or [Path()], set()
    while left:
        start = left.pop()
        if start in seen:
            continue
        seen.add(start)
        new = _below(root, start)
        found |= {os.fsencode(path.relative_to(root)): path for path in new}
        for path in new:
            if path.is_symlink():
                rest = (
                    start.relative_to(path.relative_to(root))
                    if path in (root / start).parents
                    else ""
                )
                left += _target(root, path / rest)
    return found


def _below(root: Path, start: Path) -> list[Path]:
    """A file or all files of a directory, links among them; of a path through a link, the link."""
    for place in [*reversed((root / start).parents), root / start]:
        if place.is_symlink() and place.is_relative_to(root) and place != root:
            return [place]
    if (root / start).is_file():
        return [root / start]
    found = []
    for directory, names, files in os.walk(root / start):
        paths = [Path(directory) / name for name in names]
        found += [Path(directory) / name for name in files]
        found += [path for path in paths if path.is_symlink()]
    return found


def _target(root: Path, path: Path) -> list[Path]:
    """What a path leads to, relative to `root`; nothing where that is outside, or nowhere."""
    with contextlib.suppress(OSError, RuntimeError, ValueError):  # a loop; outside
        path.stat()  # the system ends a loop at once, `resolve` after all of it
        return [path.resolve(strict=True).relative_to(root.resolve())]
    return []


def library_hash(root: Path) -> str:
    """SHA-256 of the one shared library below `root`; of several, of their names and hashes.

    Empty when there is none.
    """
    found = {
        path.relative_to(root).as_posix(): file_hash(path).hexdigest() for path in libraries(root)
    }
    if len(found) == 1:
        return next(iter(found.values()))
    lines = "".join(f"{digest}  {name}\n" for name, digest in found.items())
    encoded = lines.encode(errors="surrogateescape")
    return hashlib.sha256(encoded).hexdigest() if found else ""


def libraries(root: Path) -> list[Path]:
    """The shared libraries below `root`, or `root` itself, sorted: extension modules and what they
    link against."""
    return sorted(
        path
        for path in ([root] if root.is_file() else root.rglob("*.so*"))
        if path.is_file() and ".so" in path.suffixes and not path.is_symlink()
    )
