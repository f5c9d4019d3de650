"""The files of a project as they are on disk, and which of them git has."""

import errno
import hashlib
import os
import re
import stat
from collections import defaultdict
from collections.abc import Iterable, KeysView
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

from flashbench.builds.content import HEADERS, UNITS
from flashbench.errors import NotMeasuredError
from flashbench.preflight.source.functions import SourceFile
from flashbench.pyproject import up_to_repository
from flashbench.revisions import git

_LARGEST = 2_000_000  # bytes; larger files are not read
_NOT_SOURCES = {"node_modules", "__pycache__", "build", "dist"}  # where git cannot tell
_BUILD_FILES = re.compile(
    r"(^|/)(setup\.py|setup\.cfg|pyproject\.toml|CMakeLists\.txt|meson\.build|BUILD(\.bazel)?|"
    r"(GNU)?[Mm]akefile)$|\.(cmake|mk|ninja|bzl|py|sh)$"
)
_DAMAGED = re.compile(r"not a git repository|index file|bad |corrupt|unable to|object")
_SHA1, _SHA256 = 20, 32  # bytes
_PADDING = 8  # NULs at the end of an entry, at most
_SHORTEST_INDEX = 12 + _SHA1
# Folders of environments, builds and packages, and hidden ones.
_MADE = re.compile(r"(^|/)(\.?venv[^/]*|build[^/]*|dist|site-packages|node_modules|\.[^/]+)/")
_TEST = re.compile(r"(^|/)(tests?/|test_[^/]*$|conftest\.py$)")


@dataclass(eq=False)  # compared by identity: results are cached by tree
class SourceTree:
    """A directory and the files below it, named relative to it with forward slashes.

    files: all that git tracks or does not ignore; without git, all on disk. tracked: those in the
    index; committed: those in HEAD; None without git. modules: submodules, and whether each was
    fetched; recorded: the commit of each in the index.
    """

    root: Path
    files: tuple[str, ...]
    tracked: frozenset[str] | None = None
    committed: frozenset[str] | None = None
    modules: dict[str, bool] = field(default_factory=dict)
    recorded: dict[str, str] = field(default_factory=dict)
    of_modules: tuple[str, ...] = ()  # files of fetched submodules
    without_git: str = ""  # why
    damaged: str = ""  # what git says about the objects it lacks
    unread: dict[str, str] = field(default_factory=dict)  # files with reasons
    _inside: dict[str, frozenset[str]] = field(default_factory=dict, repr=False)
    _texts: dict[str, SourceFile] = field(default_factory=dict, repr=False)
    _closures: dict[str, KeysView[str]] = field(default_factory=dict, repr=False)
    _resolved: dict[tuple[str, str], str | None] = field(default_factory=dict, repr=False)

    @cached_property
    def units(self) -> list[str]:
        return [name for name in self.files if name.endswith(UNITS)]

    @cached_property
    def headers(self) -> list[str]:
        return [name for name in self.files if name.endswith(HEADERS)]

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """Units, then headers."""
        return (*self.units, *self.headers)

    def naming(self, name: str) -> list[str]:
        """Sources that have a word, directives excluded."""
        return [file for file in self.sources if name in self.read(file).words]

    @cached_property
    def build_files(self) -> list[str]:
        return [name for name in self.files if _BUILD_FILES.search(name)]

    @cached_property
    def directories(self) -> frozenset[str]:
        """Names of all directories, at any depth, that hold a C++ or CUDA file."""
        parents = {str(PurePosixPath(name).parent) for name in (*self.units, *self.headers)}
        return frozenset(part for parent in parents for part in PurePosixPath(parent).parts)

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        return by_name(self.files)

    def read(self, name: str) -> SourceFile:
        """Text of a file, cached; empty for an unreadable one, which `unread` then names."""
        if name not in self._texts:
            text, why = _text(f"{self.root}/{name}")
            if why:
                self.unread[name] = why
            self._texts[name] = SourceFile(text)
        return self._texts[name]

    def ending(self, name: str) -> list[str]:
        """Files whose path ends with the path `name`."""
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
        """Find the file `#include "name"` in `includer` means: beside it, else with that path."""
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
        """The unit and all project files it includes, directly or not; cached."""
        if unit not in self._closures:
            self._closures[unit] = self.closure_of([unit])
        return self._closures[unit]

    def closure_of(self, units: Iterable[str]) -> KeysView[str]:
        """These units and all they include, each file once."""
        seen, todo = dict.fromkeys(units), list(units)
        while todo:
            current = todo.pop()
            for include in self.read(current).includes:
                found = self.resolve(current, include.name)
                if found is not None and found not in seen:
                    seen[found] = None
                    todo.append(found)
        return seen.keys()

    def is_there(self, file: str) -> bool:
        """Whether a file below the root is on disk, also if git ignores it."""
        folder, _, name = file.rpartition("/")
        return name in self._names(folder) and os.path.isfile(f"{self.root}/{file}")  # noqa: PTH113

    def _names(self, folder: str) -> frozenset[str]:
        """Names in a folder, listed once: the same folders are asked for many headers."""
        if folder not in self._inside:
            above, _, last = folder.rpartition("/")
            try:
                there = not folder or last in self._names(above)
                names = os.listdir(self.root / folder) if there else ()  # noqa: PTH208
            except (OSError, ValueError):
                names = ()
            self._inside[folder] = frozenset(names)
        return self._inside[folder]

    def in_submodules(self, name: str) -> bool:
        """Whether a submodule has a file whose path ends with the path `name`."""
        return any(known == name or known.endswith(f"/{name}") for known in self.of_modules)

    @cached_property
    def ignored(self) -> tuple[str, ...]:
        """Files that git ignores, except in folders of environments and builds."""
        if self.tracked is None:
            return ()
        asked = ("--others", "--ignored", "--exclude-standard", "--directory")
        names = git.listed(self.root, "ls-files", "-z", *asked)
        found = [name for name in names if not _MADE.search(name)]
        folders = [name for name in found if name.endswith("/")]
        inside = (f"{one}{file}" for one in folders for file in _walk(self.root / one))
        files = (*(name for name in found if not name.endswith("/")), *inside)
        return tuple(name for name in files if not _MADE.search(name))

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.files)


def is_test(file: str) -> bool:
    """Whether a build file belongs to tests, whose text says nothing about the build."""
    return _TEST.search(file) is not None


def read_tree(root: Path) -> SourceTree:
    """Read the files below `root`, through git if it works, else by walking."""
    try:
        if why := _damaged_index(root):
            return _by_head(root, why)
        entries = git.listed(root, "ls-files", "-z", "--stage")
        others = git.listed(root, "ls-files", "-z", "--others", "--exclude-standard")
    except NotMeasuredError as error:
        # "dubious ownership" is not damage; its message says what to do.
        broken = any(os.path.lexists(one / ".git") for one in up_to_repository(root))
        damaged = str(error) if broken and _DAMAGED.search(str(error)) else ""
        files = tuple(sorted(_walk(root)))
        return SourceTree(root, files, without_git=str(error), damaged=damaged)
    tracked, modules, recorded, damaged = set(), {}, {}, ""
    for entry in entries:
        about, _, name = entry.partition("\t")
        if about.startswith("160000"):
            modules[name] = _is_fetched(root / name)
            recorded[name] = about.split()[1]
        else:
            tracked.add(name)
    committed, damaged = _committed(root)
    if committed and not entries:
        return _by_head(root, f"the index is empty, and HEAD has {len(committed)} files")
    damaged = damaged or _lost(root, entries)
    there = {name for name in tracked if os.path.exists(f"{root}/{name}")}  # noqa: PTH110 - quicker
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
        damaged=damaged,
    )


def _damaged_index(root: Path) -> str:
    """What is wrong with the index; "" if nothing is, or there is none. Of its checksum git says
    nothing, and lists what damage has left."""
    index = root / os.fsdecode(git.ask(root, "rev-parse", "--git-path", "index").strip())
    try:
        content = index.read_bytes()
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"the index cannot be read: {error.strerror}"
    if content[:4] != b"DIRC" or len(content) < _SHORTEST_INDEX:
        return "the index is damaged: it does not begin as one" if content else "the index is empty"
    # Zeros instead of a checksum: index.skipHash. More of them are no checksum.
    zeros = len(content) - len(content.rstrip(b"\0"))
    if _SHA1 <= zeros <= _SHA256 + _PADDING or any(
        content.endswith(new(content[:-size], usedforsecurity=False).digest())
        for new, size in ((hashlib.sha1, _SHA1), (hashlib.sha256, _SHA256))
    ):
        return ""
    return "the index is damaged: its checksum does not fit its content"


def _by_head(root: Path, damaged: str) -> SourceTree:
    """The files on disk and the submodules of HEAD: the best that can be known without an index."""
    try:
        entries = git.listed(root, "ls-tree", "-r", "-z", "HEAD")
    except git.GitError:
        entries = []
    committed = {name: about for about, _, name in (one.partition("\t") for one in entries)}
    splits = {name for name, about in committed.items() if about.startswith("160000")}
    modules = {name: _is_fetched(root / name) for name in splits}
    here = {name for name in committed.keys() - splits if (root / name).is_file()}
    files = tuple(sorted({*_walk(root), *here}))
    return SourceTree(root, files, modules=modules, without_git=damaged, damaged=damaged)


def _is_fetched(module: Path) -> bool:
    return module.is_dir() and any(module.iterdir())


def _committed(root: Path) -> tuple[frozenset[str], str]:
    """The files of HEAD, and what is damaged if git cannot say; no files before the first
    commit."""
    try:
        return frozenset(git.listed(root, "ls-tree", "-r", "-z", "--name-only", "HEAD")), ""
    except git.GitError as error:
        said = str(error)
    try:
        commit = git.ask(root, "rev-parse", "--verify", "--quiet", "HEAD").decode().strip()
    except git.GitError:
        commit = ""
    try:
        git.ask(root, "cat-file", "-e", f"{commit or 'HEAD'}^{{commit}}")
    except git.GitError:
        return frozenset(), f"HEAD names no commit: {said}" if _had_commit(root) else ""
    return frozenset(), said


def _had_commit(root: Path) -> bool:
    """Whether the branch of HEAD was ever written; not before its first commit."""
    try:
        place = Path(os.fsdecode(git.ask(root, "rev-parse", "--absolute-git-dir").strip()))
        branch = (place / "HEAD").read_text(errors="replace").strip().removeprefix("ref: ")
    except (git.GitError, OSError):
        return True
    written = (place / branch, place / "logs" / branch)
    return not branch.startswith("refs/") or any(one.is_file() for one in written)


def _lost(root: Path, entries: list[str]) -> str:
    """Files of the index whose contents git has lost; "" if none, or if a partial clone fetches
    them."""
    files = {entry.split()[1]: entry for entry in entries if not entry.startswith("160000")}
    try:
        answer = git.ask(
            root, "cat-file", "--batch-check", sent="".join(f"{one}\n" for one in files).encode()
        )
    except git.GitError:
        return ""  # an old git dies of the first object that a partial clone lacks
    lost = [line.split()[0] for line in answer.decode().splitlines() if line.endswith(" missing")]
    if not lost or git.is_partial(root):
        return ""
    more = f" and {len(lost) - 1} more files" if len(lost) > 1 else ""
    return f"the contents of {files[lost[0]].partition(chr(9))[2]}{more} are lost"


def by_name(paths: Iterable[str]) -> dict[str, list[str]]:
    """Paths by the names of their files."""
    named: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        named[path.rpartition("/")[2]].append(path)
    return named


def _walk(root: Path) -> list[str]:
    found = []
    for directory, names, files in os.walk(root):
        names[:] = [name for name in names if name[0] != "." and name not in _NOT_SOURCES]
        found += [os.path.relpath(os.path.join(directory, name), root) for name in files]  # noqa: PTH118
    return [name.replace(os.sep, "/") for name in found]


def _text(path: str) -> tuple[str, str]:
    """Read the text of a file, and why it is empty if unreadable."""
    try:
        about = os.stat(path)  # noqa: PTH116 - quicker
        if not stat.S_ISREG(about.st_mode):
            return "", ""
        if about.st_size > _LARGEST:
            return "", f"{about.st_size / 1e6:.1f} MB, more than {_LARGEST / 1e6:g} MB"
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123
            text = file.read().decode(errors="replace")
        return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text, ""
    except ValueError:
        return "", ""  # no name of a file
    except OSError as error:
        there = error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
        return "", (error.strerror or "cannot be read") if there else ""
