"""Fingerprint what determines a commit's build and import root, from git's object names.

This needs no checkout: two commits with equal contents share one build and one import root, so the
second costs one `git ls-tree`.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import PurePosixPath

from flashbench import source_hash
from flashbench.builds.content import BUILD_SUFFIXES
from flashbench.revisions import git
from flashbench.revisions.project import Project

# At an import root: files that no import needs but every second commit changes.
_DOCUMENTS = (".md", ".rst")
_SYMLINK, _SUBMODULE = b"120000 ", b"160000 "


@dataclass(frozen=True)
class Contents:
    """Hashes of names, modes and object names. sources: of compiled files; importable: of
    importable files; is_importable: whether a file is one of those; modules: names and commits of
    the submodules, which may or may not be available."""

    sources: str
    importable: str
    is_importable: Callable[[bytes], bool]
    modules: tuple[tuple[bytes, str], ...] = ()


@lru_cache(maxsize=8192)
def contents_of(project: Project, commit: str) -> Contents:
    """The fingerprint of a commit (full hash). Raises git.GitError if git cannot read it."""
    listed = git.ask(project.repository, "ls-tree", "-r", "-z", "--full-tree", commit)
    entries = [(entry.partition(b"\t")[2], entry) for entry in listed.split(b"\0") if entry]
    links = [name for name, entry in entries if entry.startswith(_SYMLINK)]
    is_importable = _importable(project, {name for name, _ in entries})
    is_source: Callable[[bytes], bool] = partial(_is_source, project)
    root, sources = os.fsencode(_root(project)), _sources(project)
    # A link may lead anywhere in the tree, so with links the whole tree counts.
    if any(is_importable(link) or _above(link, [root]) for link in links):
        is_importable = _everything
    if any(_below(link, sources) or _above(link, sources) for link in links):
        is_source = _everything
    return Contents(
        _hash(entry for name, entry in entries if is_source(name)),
        _hash(entry for name, entry in entries if is_importable(name)),
        is_importable,
        tuple(
            (name, entry.split()[2].decode())
            for name, entry in entries
            if entry.startswith(_SUBMODULE)
        ),
    )


def _everything(name: bytes) -> bool:
    return True


def is_document(name: str) -> bool:
    """Whether a file at the top of a project's path is omitted from its import root."""
    return name.startswith(".") or name.endswith(_DOCUMENTS)


def _sources(project: Project) -> list[bytes]:
    if project.build is None:
        return [os.fsencode(path) for path in source_hash.SOURCES]
    return [os.fsencode(PurePosixPath(project.directory, path)) for path in project.build_inputs]


def _root(project: Project) -> str:
    return str(PurePosixPath(project.directory, project.path))


def _is_source(project: Project, name: bytes) -> bool:
    if project.build is None:
        return _below(name, _sources(project)) and name.endswith(
            tuple(suffix.encode() for suffix in source_hash.SUFFIXES)
        )
    return (
        not project.sources
        or _below(name, _sources(project))
        or os.fsdecode(name).endswith(BUILD_SUFFIXES)
    )


def _importable(project: Project, there: set[bytes]) -> Callable[[bytes], bool]:
    """The rule by which `prepare` assembles an import root, for the names of a commit."""
    root = os.fsencode(_root(project))
    prefix = b"" if root == b"." else root + b"/"
    package = os.fsencode(project.callable.partition(":")[0].partition(".")[0])
    compiled_later = _sources(project) if project.build == () else []
    chosen: dict[bytes, bool] = {}

    def importable(name: bytes) -> bool:
        if not name.startswith(prefix):
            return False
        if compiled_later and _below(name, compiled_later):
            return True
        top, slash, _ = name.removeprefix(prefix).partition(b"/")
        if not slash:
            return not is_document(os.fsdecode(top))
        if top not in chosen:
            chosen[top] = top == package or prefix + top + b"/__init__.py" in there
        return chosen[top]

    return importable


def _below(name: bytes, paths: Sequence[bytes]) -> bool:
    return any(path == b"." or name == path or name.startswith(path + b"/") for path in paths)


def _above(name: bytes, paths: Sequence[bytes]) -> bool:
    return any(_below(path, [name]) for path in paths)


def _hash(entries: Iterable[bytes]) -> str:
    total = hashlib.sha256()
    for entry in entries:
        total.update(len(entry).to_bytes(8, "little") + entry)
    return total.hexdigest()
