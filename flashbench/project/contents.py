"""What of a commit decides its build and its site, told by git's own object names.

Nothing is checked out for it: two commits with equal contents share one build and one site, so the
second costs one `git ls-tree`.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

from flashbench import source_hash
from flashbench.project import git
from flashbench.project.settings import Project

# At an import root, what no import needs and every second commit changes.
_DOCUMENTS = (".md", ".rst")


@dataclass(frozen=True)
class Contents:
    """Hashes of names, modes and object names. sources: of what is compiled; site: of what can be
    imported; in_site: whether a file is part of the latter."""

    sources: str
    site: str
    in_site: Callable[[bytes], bool]


@lru_cache(maxsize=8192)
def contents_of(project: Project, commit: str) -> Contents:
    """Of a commit (full hash). Raises git.GitError when git cannot read it."""
    listed = git.ask(project.repository, "ls-tree", "-r", "-z", "--full-tree", commit)
    entries = [entry for entry in listed.split(b"\0") if entry]
    names = [entry.partition(b"\t")[2] for entry in entries]
    in_site = _importable(project, names)
    return Contents(
        _hash(e for e, name in zip(entries, names, strict=True) if _is_source(project, name)),
        _hash(e for e, name in zip(entries, names, strict=True) if in_site(name)),
        in_site,
    )


def is_document(name: str) -> bool:
    """Whether a file at an import root is left out of a site."""
    return name.startswith(".") or name.endswith(_DOCUMENTS)


def _is_source(project: Project, name: bytes) -> bool:
    if project.build is None:
        return _below(name, source_hash.SOURCES) and name.endswith(
            tuple(suffix.encode() for suffix in source_hash.SUFFIXES)
        )
    if not project.sources:
        return True
    return _below(name, [str(PurePosixPath(project.directory, path)) for path in project.sources])


def _importable(project: Project, names: list[bytes]) -> Callable[[bytes], bool]:
    """The rule by which `prepare` puts a site together, for the names of a commit."""
    root = os.fsencode(PurePosixPath(project.directory, project.path))
    prefix = b"" if root == b"." else root + b"/"
    there = set(names)
    package = os.fsencode(project.callable.partition(":")[0].partition(".")[0])
    chosen: dict[bytes, bool] = {}

    def importable(name: bytes) -> bool:
        if not name.startswith(prefix):
            return False
        top, slash, _ = name.removeprefix(prefix).partition(b"/")
        if not slash:
            return not is_document(os.fsdecode(top))
        if top not in chosen:
            chosen[top] = top == package or prefix + top + b"/__init__.py" in there
        return chosen[top]

    return importable


def _below(name: bytes, paths: Sequence[str]) -> bool:
    encoded = [os.fsencode(path) for path in paths]
    return any(path == b"." or name == path or name.startswith(path + b"/") for path in encoded)


def _hash(entries: Iterable[bytes]) -> str:
    total = hashlib.sha256()
    for entry in entries:
        total.update(len(entry).to_bytes(8, "little") + entry)
    return total.hexdigest()
