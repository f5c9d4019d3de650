"""Hashes of what lies in a directory: of files as they are, and of the libraries among them."""

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path


def content_hash(root: Path, paths: Sequence[str] = ()) -> str:
    """Hash of names, contents, executable bits and links below `root`; 64 hexadecimal digits.

    paths: only these files and directories, relative to `root`; none: everything.
    """
    total = hashlib.sha256()
    for name, path in sorted(_files(root, paths)):
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


def _files(root: Path, paths: Sequence[str]) -> Iterator[tuple[bytes, Path]]:
    found: dict[bytes, Path] = {}
    for start in [root / path for path in paths] or [root]:
        if start.is_symlink() or start.is_file():
            found[os.fsencode(start.relative_to(root))] = start
        for directory, names, files in os.walk(start):
            links = [name for name in names if (Path(directory) / name).is_symlink()]
            for name in [*files, *links]:
                path = Path(directory) / name
                found[os.fsencode(path.relative_to(root))] = path
    yield from found.items()


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
    """The shared libraries below `root`, sorted: extension modules and what they link against."""
    return sorted(
        path
        for path in root.rglob("*.so*")
        if path.is_file() and ".so" in path.suffixes and not path.is_symlink()
    )
