"""The project under test: `[tool.flashbench.project]` of its pyproject.toml."""

import re
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

from flashbench.callables import OPERATIONS, OUR_CALLABLE, OURS, is_function
from flashbench.errors import InvalidInputError
from flashbench.project_cases import ANY_CASES, ProjectCases
from flashbench.project_cases import read as read_cases
from flashbench.pyproject import find_pyproject, read_pyproject, table_of, up_to_repository
from flashbench.revisions import backend, git

if TYPE_CHECKING:
    from flashbench.runfile import Processes

TABLE = "[tool.flashbench.project]"
_KEYS = ("callable", "build", "path", "sources", "environment", "operation", "adapter")
# What builds start from, whether `sources` has it or not; the last for builds by pip alone: every
# other commit changes settings in it that no compiler reads.
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_ENTRIES = ("setup.py", "setup.cfg", "CMakeLists.txt", "meson.build", *_MAKEFILES)
_SCRIPT = re.compile(r"\w[\w/+-]*\.\w+")
_BY_PIP = ("pip", "build", "uv")
_EXAMPLE = (
    f'add {TABLE} with callable = "module:function" and '
    'build = ["python", "setup.py", "build_ext", "--inplace"]'
)


@dataclass(frozen=True)
class Project:
    """A git repository whose revisions can be built, and how.

    build: an argument list; None is flashbench's own extension, built out of its tree.
    operation: of flashbench/operations, or `module:name` in the working tree.
    path, sources: relative to `directory`, with forward slashes. No sources: all files count.
    adapter: a file or folder of the working tree, at the same place in every revision; "": none.
    requires: [build-system] requires, packages that a Python build needs. directory: the folder of
    pyproject.toml, relative to the repository root; the build runs there.
    """

    repository: Path
    callable: str
    build: tuple[str, ...] | None = None
    path: str = "."
    sources: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()  # environment variables that affect the build
    requires: tuple[str, ...] = ()
    directory: str = "."
    operation: str = OPERATIONS[0]  # what the callable computes
    adapter: str = ""
    cases: ProjectCases = ANY_CASES  # what it is measured and checked on

    @property
    def build_inputs(self) -> tuple[str, ...]:
        """`sources`, and the files that the build starts from; () if all files count."""
        if not self.sources:
            return ()
        command = self.build or ()
        scripts = (one for one in command if _SCRIPT.fullmatch(one))
        settings = ("pyproject.toml",) if set(_BY_PIP) & set(command) else ()
        return tuple(dict.fromkeys((*self.sources, *scripts, *_ENTRIES, *settings)))

    @property
    def import_root(self) -> Path:
        """The import root in the working tree."""
        return self.repository / self.directory / self.path


def read(start: Path) -> Project:
    """The project whose pyproject.toml is nearest to `start`, upwards.

    Raises InvalidInputError naming the file and the invalid key, or what is missing.
    """
    file = find_pyproject(start.absolute())
    if file is None:
        raise InvalidInputError(f"{start}: no pyproject.toml here or above; {_EXAMPLE}")
    project = parse(file)
    if project is None:
        raise InvalidInputError(f"{file}: no {TABLE}; {_EXAMPLE}")
    return _in_git(project, file)


def parse(file: Path) -> Project | None:
    """Read the settings of a pyproject.toml without git; its folder stands for the repository.

    None if it has no table and is not flashbench's own. Raises InvalidInputError as `read` does.
    """
    document, table = _tables(file)
    ours = _is_ours(document)
    return _project(file, document, table, ours=ours) if table or ours else None


def find(start: Path) -> Project | None:
    """Like `read`, but None if no pyproject.toml has the table."""
    file = find_pyproject(start.absolute())
    if file is None:
        return None
    document, table = _tables(file)
    return _in_git(_project(file, document, table, ours=False), file) if table else None


def of_suite(start: Path, suite: Path) -> Project:
    """The project around `start`, or else around a suite of benchmarks, whose callable nobody asks
    for: without a table it is the nearest package, built if its backend compiles. Raises
    InvalidInputError, also where there is no git repository."""
    places = start.absolute(), suite
    for file in filter(None, map(find_pyproject, places)):
        document, table = _tables(file)
        if (ours := _is_ours(document)) or table:
            table = table if ours else {"callable": f"{OURS}:nothing", "build": [], **table}
            return _in_git(_project(file, document, table, ours=ours), file)
    root = git.root_of(places[0])
    plain = Project(repository=root, callable="", build=())
    for folder in chain.from_iterable(map(up_to_repository, places)):
        file = folder / "pyproject.toml"
        document = read_pyproject(file) if file.is_file() else {}
        if {"project", "build-system"} & set(document) or (folder / "setup.py").is_file():
            if backend.compiles(document, git.listed(root, "ls-files", "-z")):
                built = replace(plain, build=backend.COMMAND, path=backend.FOLDER)
                plain = replace(built, requires=_requires(document))
            return _in_git(plain, file)
    return plain


def _is_ours(document: dict[str, Any]) -> bool:
    """Whether this is flashbench's own distribution, whose build and callable are known without
    settings."""
    metadata = document.get("project")
    return isinstance(metadata, dict) and metadata.get("name") == OURS


def _tables(file: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The whole document, and its project table ({} without one)."""
    document = read_pyproject(file)
    return document, table_of(file, document, "project")


def _project(file: Path, document: dict[str, Any], table: dict[str, Any], *, ours: bool) -> Project:
    found = _Reader(file, table).project(ours)
    return replace(found, requires=_requires(document), cases=read_cases(file, document))


def _in_git(project: Project, file: Path) -> Project:
    """Fill in the repository around the file, and the file's folder in it."""
    repository = git.root_of(file.parent)
    directory = file.parent.resolve().relative_to(repository).as_posix()
    return replace(project, repository=repository, directory=directory)


def _requires(document: dict[str, Any]) -> tuple[str, ...]:
    """[build-system] requires, if it is a list; otherwise pip, or the build, refuses it."""
    table = document.get("build-system")
    found = table.get("requires") if isinstance(table, dict) else None
    return tuple(text for text in found if isinstance(text, str)) if isinstance(found, list) else ()


class _Reader:
    def __init__(self, file: Path, table: dict[str, Any]) -> None:
        self._file = file
        self._table = table

    def project(self, ours: bool) -> Project:
        for key in self._table:
            if key not in _KEYS:
                raise self._bad(key, f"is no setting; settings are {', '.join(_KEYS)}")
        call = self._table.get("callable", OUR_CALLABLE if ours else None)
        if not isinstance(call, str) or not is_function(call):
            raise self._bad("callable", 'must be written as "module:function"')
        build: tuple[str, ...] | None = None
        if "build" in self._table:
            build = self._texts("build")
        elif not ours:
            raise self._bad("build", "is missing; write the command as a list, [] for none")
        return Project(
            repository=self._file.parent,
            callable=call,
            build=build,
            path=self._inside("path", self._table.get("path", ".")),
            sources=tuple(self._inside("sources", text) for text in self._texts("sources")),
            environment=self._texts("environment"),
            operation=self._operation(self._table.get("operation", OPERATIONS[0])),
            adapter=self._inside("adapter", self._table["adapter"])
            if "adapter" in self._table
            else "",
        )

    def _operation(self, name: Any) -> str:
        if isinstance(name, str) and (name in OPERATIONS or is_function(name)):
            return name
        raise self._bad("operation", f"must be {', '.join(OPERATIONS)}, or module:name")

    def _texts(self, key: str) -> tuple[str, ...]:
        value = self._table.get(key, [])
        if not isinstance(value, list) or not all(
            isinstance(text, str) and text and "\0" not in text for text in value
        ):
            raise self._bad(key, "must be a list of strings, one per argument or path")
        return tuple(value)

    def _inside(self, key: str, text: Any) -> str:
        if isinstance(text, str) and text and "\0" not in text:
            path = PurePosixPath(text)
            if not path.is_absolute() and ".." not in path.parts:
                return path.as_posix()
        raise self._bad(key, f"{text!r} must be a path inside the project, relative to this file")

    def _bad(self, key: str, why: str) -> InvalidInputError:
        return InvalidInputError(f"{self._file}: {TABLE} {key}: {why}")


def processes_for(
    project: Project | None, asked: "Literal['auto'] | Processes"
) -> "Literal['auto'] | Processes":
    """Whether a project's revisions share a process; asked: "auto", "shared" or "paired".
    Process-wide state cannot be enumerated, so by default only code known to leave none shares one.
    project None: flashbench's own kernel."""
    builds_itself = project is not None and project.build is not None
    return "paired" if asked == "auto" and builds_itself else asked
