"""The files of a project as they lie there, and which of them git has."""

import os
import re
from collections import defaultdict
from collections.abc import Iterable, KeysView
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

from flashbench.errors import NotMeasuredError
from flashbench.preflight.source.cxx import HEADERS, UNITS, SourceText
from flashbench.revisions import git

_LARGEST = 2_000_000  # bytes of a file that is read
_NOT_SOURCES = {"node_modules", "__pycache__", "build", "dist"}  # where git cannot tell
_BUILD_FILES = re.compile(
    r"(^|/)(setup\.py|setup\.cfg|pyproject\.toml|CMakeLists\.txt|meson\.build|BUILD(\.bazel)?|"
    r"(GNU)?[Mm]akefile)$|\.(cmake|mk|ninja|bzl|py|sh)$"
)
_TEST = re.compile(r"(^|/)(tests?/|test_[^/]*$|conftest\.py$)")


@dataclass(eq=False)  # by identity, as what is found of it is kept
class SourceTree:
    """A directory and the files below it, named relative to it with forward slashes.

    files: all that git tracks or does not ignore; without git, what lies there. tracked: those in
    the index, committed: those of HEAD; None without git. modules: submodules with whether they
    were fetched; recorded: the commit of each that the index names.
    """

    root: Path
    files: tuple[str, ...]
    tracked: frozenset[str] | None = None
    committed: frozenset[str] | None = None
    modules: dict[str, bool] = field(default_factory=dict)
    recorded: dict[str, str] = field(default_factory=dict)
    of_modules: tuple[str, ...] = ()  # the files of submodules that were fetched
    without_git: str = ""  # why
    _texts: dict[str, SourceText] = field(default_factory=dict, repr=False)
    _closures: dict[str, KeysView[str]] = field(default_factory=dict, repr=False)
    _resolved: dict[tuple[str, str], str | None] = field(default_factory=dict, repr=False)

    @cached_property
    def units(self) -> list[str]:
        return [name for name in self.files if name.endswith(UNITS)]

    @cached_property
    def headers(self) -> list[str]:
        return [name for name in self.files if name.endswith(HEADERS)]

    @cached_property
    def build_files(self) -> list[str]:
        return [name for name in self.files if _BUILD_FILES.search(name)]

    @cached_property
    def directories(self) -> frozenset[str]:
        """The names of all directories that hold a file of C++ or CUDA, at any depth."""
        parents = {str(PurePosixPath(name).parent) for name in (*self.units, *self.headers)}
        return frozenset(part for parent in parents for part in PurePosixPath(parent).parts)

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        named: dict[str, list[str]] = defaultdict(list)
        for name in self.files:
            named[name.rpartition("/")[2]].append(name)
        return named

    def read(self, name: str) -> SourceText:
        """The text of a file, kept; empty for one that cannot be read or is no text of a person."""
        if name not in self._texts:
            self._texts[name] = SourceText(_text(self.root / name))
        return self._texts[name]

    def ending(self, name: str) -> list[str]:
        """The files whose path ends with the path `name`."""
        wanted = [part for part in name.split("/") if part not in ("", ".", "..")]
        if not wanted or name.startswith("/"):
            return []
        end = "/".join(wanted)
        return [
            known
            for known in self._by_name.get(wanted[-1], [])
            if known == end or known.endswith(f"/{end}")
        ]

    def resolve(self, includer: str, name: str) -> str | None:
        """The file that `#include "name"` in `includer` means: beside it, else of that path."""
        asked = includer.rpartition("/")[0], name
        if asked not in self._resolved:  # headers are included many times
            self._resolved[asked] = self._resolve(*asked)
        return self._resolved[asked]

    def _resolve(self, folder: str, name: str) -> str | None:
        beside = os.path.normpath(PurePosixPath(folder) / name)
        if beside in self._known:
            return beside
        found = self.ending(name)
        if self.tracked is not None:
            found.sort(key=lambda known: known not in (self.tracked or ()))
        return found[0] if found else None

    def closure(self, unit: str) -> KeysView[str]:
        """The unit and all files of the project that it includes, directly or not; kept."""
        if unit not in self._closures:
            self._closures[unit] = self.closure_of([unit])
        return self._closures[unit]

    def closure_of(self, units: Iterable[str]) -> KeysView[str]:
        """These units and all that they include, each file once."""
        seen, todo = dict.fromkeys(units), list(units)
        while todo:
            current = todo.pop()
            for include in self.read(current).includes:
                found = self.resolve(current, include.name)
                if found is not None and found not in seen:
                    seen[found] = None
                    todo.append(found)
        return seen.keys()

    def in_submodules(self, name: str) -> bool:
        """Whether a submodule has a file whose path ends with the path `name`."""
        return any(known == name or known.endswith(f"/{name}") for known in self.of_modules)

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.files)


def is_test(file: str) -> bool:
    """Whether a build file is of tests, whose texts tell nothing of the build."""
    return _TEST.search(file) is not None


def read_tree(root: Path) -> SourceTree:
    """The files below `root`, by git where that works, else by walking."""
    try:
        entries = git.listed(root, "ls-files", "-z", "--stage")
        others = git.listed(root, "ls-files", "-z", "--others", "--exclude-standard")
    except NotMeasuredError as error:
        return SourceTree(root, tuple(sorted(_walk(root))), without_git=str(error))
    tracked, modules, recorded = set(), {}, {}
    for entry in entries:
        about, _, name = entry.partition("\t")
        if about.startswith("160000"):
            folder = root / name
            modules[name] = folder.is_dir() and any(folder.iterdir())
            recorded[name] = about.split()[1]
        else:
            tracked.add(name)
    try:
        committed = frozenset(git.listed(root, "ls-tree", "-r", "-z", "--name-only", "HEAD"))
    except git.GitError:
        committed = frozenset()  # no commit yet
    there = {name for name in tracked if (root / name).exists()}
    return SourceTree(
        root,
        tuple(sorted(there | set(others))),
        frozenset(tracked),
        committed,
        modules,
        recorded,
        tuple(git.listed(root, "ls-files", "-z", "--recurse-submodules"))
        if any(modules.values())
        else (),
    )


def _walk(root: Path) -> list[str]:
    found = []
    for directory, names, files in os.walk(root):
        names[:] = [name for name in names if name[0] != "." and name not in _NOT_SOURCES]
        found += [os.path.relpath(os.path.join(directory, name), root) for name in files]  # noqa: PTH118
    return [name.replace(os.sep, "/") for name in found]


def _text(path: Path) -> str:
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST:
            return ""
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
