"""Where a compiler would look for a header of the project."""

import os
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property, lru_cache

from flashbench.preflight.source.cmake import base_of
from flashbench.preflight.source.listings import include_folders
from flashbench.preflight.source.others import of_others
from flashbench.preflight.source.removed import removed_files
from flashbench.preflight.source.tree import SourceTree, by_name, is_test

# Text that mentions include directories; the lines around it may name them.
_SPEAKS_LOWER = re.compile(r"include(?:_?dir|_path|(?<=\binclude)s?\s*=)")
_SPEAKS = {"CPATH": re.compile(r"CPATH(?<=\bCPATH)"), "-I": re.compile(r"-I(?<!\w-I)[\w./${]")}
_PATH = re.compile(r"[\w+-][\w.+-]*(?:/[\w.+-]+)*")


class SearchPath:
    """Include directories of a tree, as far as its build files and includes reveal them."""

    def __init__(self, tree: SourceTree) -> None:
        self.tree = tree
        self._files = frozenset(tree.files)
        self._found: dict[tuple[str, str], str | None] = {}  # headers are included many times

    def find(self, includer: str, name: str) -> str | None:
        """Find the file an include means; git may ignore it.

        It is beside the includer, else below an include directory. If no build file names one, the
        only file with that path counts, unless a file was removed from where the compiler looks.
        """
        asked = os.path.dirname(includer), os.path.normpath(name)  # noqa: PTH120
        if asked not in self._found:
            self._found[asked] = self._find(*asked)
        return self._found[asked]

    def _find(self, folder: str, name: str) -> str | None:
        if self._is_there(beside := _join(folder, name)):
            return beside
        if name.startswith("../"):
            places = (_join(one, name) for one in self._named)
            return next((place for place in places if place in self._files), None)
        found = self.tree.ending(name)
        for one in found:
            below = _above(one, name)
            named = below in self._named and not self._moved_out(folder, name, below)
            if named or self._shown[below] - {name}:
                return one
        if (ignored := self._on_disk(name)) is not None:
            return ignored
        return found[0] if len(found) == 1 and not self._was_removed(folder, name) else None

    def find_ignored(self, name: str) -> str | None:
        """Find a header of our own in an include directory that git ignores."""
        if not self._ignored or of_others(name):
            return None
        places = (_join(folder, name) for folder in sorted(self.stated))
        return next((one for one in places if one in self._ignored), None)

    def was_removed(self, includer: str | None, name: str) -> bool:
        """Whether git had a file where the compiler looks that is now missing. includer: None for
        an include in angle brackets."""
        folder = None if includer is None else os.path.dirname(includer)  # noqa: PTH120
        return self._was_removed(folder, name)

    def _was_removed(self, folder: str | None, name: str) -> bool:
        name = os.path.normpath(name)
        if folder is not None and _join(folder, name) in self._removed:
            return True
        return any(
            _above(one, name) in self._searched
            for one in self._removed_names[os.path.basename(name)]  # noqa: PTH119
            if one == name or one.endswith(f"/{name}")
        )

    def _moved_out(self, folder: str, name: str, below: str) -> bool:
        """Whether git had a header where the compiler looks, and has it now where that looks only
        if a build file states so: at the root, or in a Python package."""
        hidden = below == "." or f"{below}/__init__.py" in self._files
        return hidden and below not in self.stated and self._was_removed(folder, name)

    def _is_there(self, place: str) -> bool:
        outside = "." not in place or place.startswith("..")
        return place in self._files or (not outside and self.tree.is_there(place))

    def _on_disk(self, name: str) -> str | None:
        """Find a file that git ignores below a named include directory."""
        if "." not in name or of_others(name):
            return None
        places = (_join(one, name) for one in self._named)
        return next((at for at in places if at not in self._files and self._is_there(at)), None)

    def has_folder(self, includer: str | None, name: str) -> bool:
        """Whether the first folder of an include lies where the compiler looks."""
        first = name.partition("/")[0]
        if includer is not None and _join(os.path.dirname(includer), first) in self._folders:  # noqa: PTH120
            return True
        return first in self._outermost

    @cached_property
    def _outermost(self) -> frozenset[str]:
        """Names of the folders in include directories."""
        inside = self._named | {folder for folder, names in self._shown.items() if names}
        paths = (os.path.split(folder) for folder in self._folders)
        return frozenset(name for above, name in paths if (above or ".") in inside)

    @cached_property
    def _folders(self) -> frozenset[str]:
        files = self.tree.sources
        nearest = {name.rpartition("/")[0] for name in files}
        every = {one[:at] for one in nearest for at, sign in enumerate(one) if sign == "/"}
        return frozenset({".", *nearest, *every} - {""})

    @cached_property
    def _named(self) -> set[str]:
        """Folders named by build files that mention include directories."""
        ends: set[str] = set()
        for file in self.tree.build_files:
            if is_test(file):
                continue
            text = self.tree.read(file).text
            around = "\n".join(text[max(0, at - 200) : at + 400] for at in _speaks(text))
            ends.update(path.removeprefix("-I") for path in _PATH.findall(around))
        ends.add(".")
        return {
            folder for folder in self._folders if any(folder[at:] in ends for at in _starts(folder))
        }

    @cached_property
    def stated(self) -> frozenset[str]:
        """Folders that build files state as include directories."""
        return frozenset(
            _join(str(folder), name)
            for file, name, _ in include_folders(self.tree)
            for folder in (base_of(self.tree, file), ".")
        )

    @cached_property
    def _searched(self) -> frozenset[str]:
        return self.stated | self._named

    @cached_property
    def _ignored(self) -> frozenset[str]:
        """Files in stated folders that git ignores."""
        stated = tuple(f"{folder}/" for folder in self.stated)
        return frozenset(one for one in self.tree.ignored if one.startswith(stated))

    @cached_property
    def _shown(self) -> dict[str, set[str]]:
        """Folders that must be include directories: includes resolve only below them."""
        shown: dict[str, set[str]] = defaultdict(set)
        for file in self.tree.sources:
            folder = os.path.dirname(file)  # noqa: PTH120
            for include in self.tree.read(file).includes:
                name = os.path.normpath(include.name)
                found = self.tree.ending(name)
                if len(found) != 1 or name.startswith("../") or found[0] == _join(folder, name):
                    continue
                if not self._was_removed(folder, name):
                    shown[_above(found[0], name)].add(name)
        return shown

    @cached_property
    def _removed_names(self) -> dict[str, list[str]]:
        return by_name(self._removed)

    @cached_property
    def _removed(self) -> frozenset[str]:
        """Files that git has or had but the working tree lacks."""
        return frozenset(removed_files(self.tree))


@lru_cache(maxsize=1)
def search_path_of(tree: SourceTree) -> SearchPath:
    """Share one instance, with its cached results, among all checks of a tree."""
    return SearchPath(tree)


def _speaks(text: str) -> Iterator[int]:
    """Find where a build file mentions include directories."""
    if "include" in text or "Include" in text or "INCLUDE" in text:
        yield from (match.start() for match in _SPEAKS_LOWER.finditer(text.lower()))
    for sign, pattern in _SPEAKS.items():
        if sign in text:
            yield from (match.start() for match in pattern.finditer(text))


def _starts(folder: str) -> list[int]:
    """Where the last component of a path begins, the last two, and so on."""
    return [0, *(at + 1 for at, sign in enumerate(folder) if sign == "/")]


def _above(path: str, name: str) -> str:
    """The part of `path` above `name`."""
    return path[: -len(name)].rstrip("/") or "."


def _join(folder: str, name: str) -> str:
    return os.path.normpath(os.path.join(folder, name))  # noqa: PTH118
