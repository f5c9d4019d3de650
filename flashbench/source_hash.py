"""The hash of the extension's sources.

It is written into the library at build time and shows whether the library was built from the
sources in a directory, whatever machine, directory or cache it came from. Standard library only:
setup.py loads this file by path, before the package can be imported.
"""

import hashlib
from pathlib import Path

# Everything the compiler sees; git-ignored leftovers have other suffixes.
SOURCES = ("csrc", "build_support", "setup.py", "flashbench/source_hash.py")
SUFFIXES = (".h", ".hpp", ".inl", ".cpp", ".cu", ".cuh", ".txt", ".cmake", ".py", ".in")


def of_tree(root: Path) -> str:
    """Hash of the sources in a directory, tracked by git or not; 64 hexadecimal digits."""
    files = []
    for source in SOURCES:
        path = root / source
        found = sorted(path.rglob("*")) if path.is_dir() else [path]
        files += [
            (file.relative_to(root).as_posix(), file.read_bytes())
            for file in found
            if file.is_file() and file.name.endswith(SUFFIXES)
        ]
    total = hashlib.sha256()
    for name, content in sorted(files):
        total.update(name.encode(errors="surrogateescape") + b"\0")
        total.update(hashlib.sha256(content).digest())
    return total.hexdigest()
