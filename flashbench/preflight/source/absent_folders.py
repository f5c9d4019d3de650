"""Include directories that build files name and nothing makes: a compiler ignores them without a
word, and the headers that should be there are missing."""

import difflib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

from flashbench.preflight.source.cmake import base_of
from flashbench.preflight.source.cxx import Include
from flashbench.preflight.source.listings import include_folders
from flashbench.preflight.source.lost import LostFolder, lost_folders
from flashbench.preflight.source.reach import unreached, unread_folders
from flashbench.preflight.source.search_path import search_path_of
from flashbench.preflight.source.tree import SourceTree

_FETCHES = re.compile(r".*(?:\bclone\b|submodule|download|fetch).*", re.IGNORECASE)
_ALIKE = 0.8  # of two paths, one of them mistyped


@dataclass(frozen=True, slots=True)
class AbsentFolder:
    """An include directory that is not here. name: as written at `where`; path: from the root;
    outermost: the outermost folder that is not here; lost: what git knows of it, None if it never
    had one."""

    where: str
    name: str
    path: str
    outermost: str
    lost: LostFolder | None

    def likeness(self, folder: str) -> float:
        """How alike a folder that is here is, from 0 to 1."""
        return difflib.SequenceMatcher(None, self.path, folder).ratio()

    def is_named_by(self, include: Include) -> bool:
        """Whether the first folder of an include is in the path, as in tiles/include for
        tiles/copy.h."""
        first, slash, _ = include.name.partition("/")
        return bool(slash) and first in PurePosixPath(self.path).parts


@lru_cache(maxsize=1)
def absent_folders(tree: SourceTree) -> tuple[AbsentFolder, ...]:
    """Each absent include directory once, without those that the build file fetches."""
    found = dict[str, AbsentFolder]()
    for file, name, line in include_folders(tree):
        # CMAKE_SOURCE_DIR may be any folder above.
        places = {os.path.normpath(one / name) for one in PurePosixPath(file).parents}
        path = os.path.normpath(base_of(tree, file) / name)
        inside = any(
            f"{one}/".startswith(f"{module}/") for one in places for module in tree.modules
        )
        there = any((tree.root / one).is_dir() for one in places)
        elsewhere = name.startswith("/") or path.startswith("..")
        if there or inside or elsewhere or re.search(r"\bbuild|gen", name):
            continue
        lost = next((one for one in lost_folders(tree) if one.folder in places), None)
        outermost = next(_missing(tree, path))
        if lost is None and _is_fetched(tree, file, path):
            continue
        where = f"{file}:{line}"
        found.setdefault(outermost, AbsentFolder(where, name, path, outermost, lost))
    return tuple(found.values())


def _is_fetched(tree: SourceTree, file: str, path: str) -> bool:
    """Whether a line of a build file fetches something by the name of a folder of the path."""
    named = {*PurePosixPath(path).parts} - {"include", "src", "tools", "util"}
    lines = _FETCHES.findall(tree.read(file).text)
    return any(not named.isdisjoint(re.split(r"[^\w-]+", line)) for line in lines)


def _missing(tree: SourceTree, path: str) -> Iterator[str]:
    """The folders of a path that are not here, outermost first."""
    for folder in (*reversed(PurePosixPath(path).parents[:-1]), PurePosixPath(path)):
        if not (tree.root / folder).is_dir():
            yield str(folder)


def mistyped(tree: SourceTree, includer: str, include: Include) -> tuple[AbsentFolder, str] | None:
    """The absent folder in whose place the build means the one that has a header, and that one;
    None if a compiler finds the header elsewhere."""
    if not absent_folders(tree):
        return None
    search = search_path_of(tree)
    found, beside = search.find(includer, include.name), PurePosixPath(includer).parent
    if found is None or not found.endswith(include.name) or found == str(beside / include.name):
        return None
    folder = found.removesuffix(include.name).rstrip("/") or "."
    of = max(absent_folders(tree), key=lambda one: one.likeness(folder))
    needed = unreached(tree, includer, include) and not unread_folders(tree)
    alike = needed or of.likeness(folder) >= _ALIKE
    return (of, folder) if alike and folder not in search.stated else None
