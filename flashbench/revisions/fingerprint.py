"""What of a commit decides its build and its site, told by git's own object names.

Nothing is checked out for it: two commits with equal contents share one build and one site, so the
second costs one `git ls-tree`.
"""

import hashlib
import os
import posixpath
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path, PurePosixPath

from flashbench import source_hash
from flashbench.revisions import git
from flashbench.revisions.settings import Project

# At an import root, what no import needs and every second commit changes.
_DOCUMENTS = (".md", ".rst")
_SYMLINK, _SUBMODULE = b"120000 ", b"160000 "
_FOLLOWED, _LONGEST = 40, 4096  # links that Linux follows on a path; bytes of one


@dataclass(frozen=True)
class Contents:
    """Hashes of names, modes and object names. sources: of what is compiled; site: of what can be
    imported; in_site: whether a file is part of the latter; modules: names and commits of the
    submodules: git does not say whether those are here."""

    sources: str
    site: str
    in_site: Callable[[bytes], bool]
    modules: tuple[tuple[bytes, str], ...] = ()


@lru_cache(maxsize=8192)
def contents_of(project: Project, commit: str) -> Contents:
    """Of a commit (full hash). Raises git.GitError when git cannot read it."""
    listed = git.ask(project.repository, "ls-tree", "-r", "-z", "--full-tree", commit)
    entries = [entry for entry in listed.split(b"\0") if entry]
    names = [entry.partition(b"\t")[2] for entry in entries]
    links = _links(project.repository, entries)
    importable = _importable(project, names)
    roots = [os.fsencode(_root(project))] if project.path != "." else []
    in_site = _with_targets(importable, roots, links)
    is_source = _with_targets(partial(_is_source, project), _sources(project), links)
    return Contents(
        _hash(e for e, name in zip(entries, names, strict=True) if is_source(name)),
        _hash(e for e, name in zip(entries, names, strict=True) if in_site(name)),
        in_site,
        tuple(
            (name, entry.split()[2].decode())
            for entry, name in zip(entries, names, strict=True)
            if entry.startswith(_SUBMODULE)
        ),
    )


def _links(repository: Path, entries: list[bytes]) -> dict[bytes, bytes]:
    """The symbolic links of a tree: name and what is written in it."""
    found = [entry.partition(b"\t") for entry in entries if entry.startswith(_SYMLINK)]
    if not found:
        return {}
    sent = b"".join(about.split()[2] + b"\n" for about, _, _ in found)
    answer, links = git.ask(repository, "cat-file", "--batch", sent=sent), {}
    for _, _, name in found:
        head, _, answer = answer.partition(b"\n")
        if not head.split()[-1].isdigit():
            missing = head.split()[0].decode()
            raise git.GitError(f"object {missing} is missing; {git.how_to_fetch(repository)}")
        size = int(head.split()[-1])
        links[name], answer = answer[:size], answer[size + 1 :]
    return links


def _with_targets(
    chosen: Callable[[bytes], bool], roots: Sequence[bytes], links: dict[bytes, bytes]
) -> Callable[[bytes], bool]:
    """The rule `chosen`, and what the links that it chooses, or that its roots lead through, lead
    to inside the tree. `content_hash` knows the same rule for files."""
    more: set[bytes] = set()
    # With the links followed so far, the fewest first: a loop ends where the kernel ends it.
    left = deque((0, path) for path in [*roots, *filter(chosen, links)])
    seen: set[bytes] = set()
    ordered = sorted(links)
    while left:
        followed, path = left.popleft()
        if path in seen or followed > _FOLLOWED or len(path) > _LONGEST:
            continue
        seen.add(path)
        # In a tree nothing lies below a link, so that a path leads through one at a time.
        link = next((name for name in _with_parents(path) if name in links), None)
        if link is not None:
            target = posixpath.join(posixpath.dirname(link), links[link])
            led = posixpath.normpath(target + path[len(link) :])
            more |= {link, led}
            left.append((followed + 1, led))
        if path in more:
            first, last = (bisect_left(ordered, path + end) for end in (b"/", b"0"))  # "/" + 1
            left.extendleft((followed, name) for name in ordered[first:last])
    if not more:
        return chosen
    return lambda name: (
        chosen(name) or b"." in more or any(path in more for path in _with_parents(name))
    )


def _with_parents(name: bytes) -> Iterator[bytes]:
    yield name
    while b"/" in name:
        name = name.rpartition(b"/")[0]
        yield name


def is_document(name: str) -> bool:
    """Whether a file at an import root is left out of a site."""
    return name.startswith(".") or name.endswith(_DOCUMENTS)


def _sources(project: Project) -> list[bytes]:
    if project.build is None:
        return [os.fsencode(path) for path in source_hash.SOURCES]
    return [os.fsencode(PurePosixPath(project.directory, path)) for path in project.sources]


def _root(project: Project) -> str:
    return str(PurePosixPath(project.directory, project.path))


def _is_source(project: Project, name: bytes) -> bool:
    if project.build is None:
        return _below(name, _sources(project)) and name.endswith(
            tuple(suffix.encode() for suffix in source_hash.SUFFIXES)
        )
    return not project.sources or _below(name, _sources(project))


def _importable(project: Project, names: list[bytes]) -> Callable[[bytes], bool]:
    """The rule by which `prepare` puts a site together, for the names of a commit."""
    root = os.fsencode(_root(project))
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


def _below(name: bytes, paths: Sequence[bytes]) -> bool:
    return any(path == b"." or name == path or name.startswith(path + b"/") for path in paths)


def _hash(entries: Iterable[bytes]) -> str:
    total = hashlib.sha256()
    for entry in entries:
        total.update(len(entry).to_bytes(8, "little") + entry)
    return total.hexdigest()
