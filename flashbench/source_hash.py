"""The hash of what the extension is built from, for a directory and for a git revision alike.

It is written into the library at build time. A measured library belongs to a commit when the two
hashes agree, whichever machine, directory or cache it came from. Standard library only: setup.py
loads this file by its path, before the package can be imported.
"""

import hashlib
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

# Everything that decides what the compiler sees; git-ignored droppings have other endings.
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
    return _digest(files)


def of_revision(repository: Path, commit: str) -> str:
    """Hash of the sources of a commit (its full hash), read from git without a checkout.

    Raises ValueError when `commit` is not the full hash of a commit of this repository.
    """
    if len(commit) not in (40, 64) or not set(commit) <= set("0123456789abcdef"):
        raise ValueError(f"{commit!r} is not a full commit hash")
    listed = _git(repository, "ls-tree", "-r", "-z", commit, "--", *SOURCES)
    entries = [entry.split(b"\t", 1) for entry in listed.split(b"\0") if entry]
    names = [
        (name.decode(errors="surrogateescape"), meta.split()[2].decode())
        for meta, name in entries
        if meta.split()[1] == b"blob"
    ]
    kept = [(name, blob) for name, blob in names if name.endswith(SUFFIXES)]
    return _digest((name, _git(repository, "cat-file", "blob", blob)) for name, blob in kept)


def _git(repository: Path, *arguments: str) -> bytes:
    # Nothing is fetched into a partial clone, as in flashbench/revisions/git.py.
    environment = os.environ | {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": ""}
    command = ["git", "-C", str(repository), *arguments]
    done = subprocess.run(command, capture_output=True, env=environment)
    if done.returncode:
        raise ValueError(done.stderr.decode(errors="replace").strip())
    return done.stdout


def _digest(files: Iterable[tuple[str, bytes]]) -> str:
    total = hashlib.sha256()
    for name, content in sorted(files):
        total.update(name.encode(errors="surrogateescape") + b"\0")
        total.update(hashlib.sha256(content).digest())
    return total.hexdigest()
