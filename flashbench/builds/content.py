"""Hashes of a directory's contents: of all its files, and of the libraries among them."""

import contextlib
import hashlib
import itertools
import os
import stat
from collections.abc import Sequence
from pathlib import Path

UNITS = (".cpp", ".cc", ".cxx", ".c", ".cu")
HEADERS = (".h", ".hh", ".hpp", ".hxx", ".cuh", ".inl", ".inc")
# What only builds read, so it counts wherever it lies: an include or a makefile's pattern reaches
# further than the `sources` that a project names.
BUILD_SUFFIXES = (*HEADERS, *UNITS, ".s", ".S", ".pyx", ".pxd", ".f90", ".cmake", ".mk", ".in")


def content_hash(root: Path, paths: Sequence[str] = ()) -> str:
    """Hash of names, contents, executable bits and links below `root`; 64 hexadecimal digits.

    paths: only these files and directories, relative to `root`, with what symbolic links among them
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
    """The files, by name. If a path goes through a link, includes the link's target in `root`, and
    every link of the tree, because together they determine the targets."""
    root = root.resolve()
    found: set[Path] = set()
    left, seen, linked = [root / path for path in paths] or [root], set(), False
    while left:
        start = left.pop()
        target = _target(start)
        linked |= target != start
        if target and target not in seen and target.is_relative_to(root):
            seen.add(target)
            new = _below(target)
            found |= new
            left += filter(Path.is_symlink, new)
    if linked:
        found |= set(filter(Path.is_symlink, _below(root)))
    return {os.fsencode(path.relative_to(root)): path for path in found}


def _target(path: Path) -> Path | None:
    """The file or directory that a path leads to; None for nothing, or a loop of links."""
    with contextlib.suppress(OSError, ValueError):
        path.stat()  # the system detects a loop at once, `resolve` only after following it
        return path.resolve()
    return None


def _below(start: Path) -> set[Path]:
    """A file, or all files of a directory, links among them."""
    if start.is_file():
        return {start}
    every = (
        Path(place, name) for place, *both in os.walk(start) for name in itertools.chain(*both)
    )
    return {path for path in every if path.is_symlink() or not path.is_dir()}


def library_hash(root: Path) -> str:
    """SHA-256 of the one shared library below `root`; for several, of their names and hashes.

    Empty if there is none.
    """
    found = libraries(root)
    return file_hash(found[0]).hexdigest() if len(found) == 1 else _hash_of(root, found)


def modules_hash(root: Path) -> str:
    """SHA-256 of the names and hashes of the Python sources below `root`; empty without any."""
    return _hash_of(root, sorted(path for path in root.rglob("*.py") if path.is_file()))


def _hash_of(root: Path, files: Sequence[Path]) -> str:
    lines = "".join(
        f"{file_hash(path).hexdigest()}  {path.relative_to(root).as_posix()}\n" for path in files
    )
    encoded = lines.encode(errors="surrogateescape")
    return hashlib.sha256(encoded).hexdigest() if files else ""


def libraries(root: Path) -> list[Path]:
    """The shared libraries below `root`, or `root` itself, sorted: extension modules and the
    libraries they link to."""
    return sorted(
        path
        for path in ([root] if root.is_file() else root.rglob("*.so*"))
        if path.is_file() and ".so" in path.suffixes and not path.is_symlink()
    )
