"""Files that a build reads besides units and headers: its entry, and what that includes or imports.

Only literal names count; a name with a variable that is not a folder of CMake's own is left out.
"""

import ast
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

from flashbench.errors import InvalidInputError
from flashbench.preflight.source.cmake import CMakeCommand, cmake_file, included, is_cmake, path_of
from flashbench.preflight.source.lines import line_of
from flashbench.preflight.source.listings import is_build
from flashbench.preflight.source.makefile import MAKEFILES, makefile_of, script_run
from flashbench.preflight.source.python_modules import Import, bound_names, files_of, packages_of
from flashbench.preflight.source.removed import is_or_was, removed_files
from flashbench.preflight.source.setup_script import (
    ANY,
    NOT_PYTHON,
    SetupScript,
    dotted,
    is_optional,
    nodes_of,
    script_of,
)
from flashbench.preflight.source.tree import SourceTree
from flashbench.revisions.project import TABLE, Project, parse

_BUILD = f"pyproject.toml {TABLE} build"
_MESON = re.compile(r"\b(?:subdir\s*\(\s*|configure_file\s*\(\s*input\s*:\s*)['\"]([\w./-]+)['\"]")
_READS = re.compile(
    r"\b(?:open|Popen|system|run|call|check_call|check_output|read_text|read_bytes|run_path|spec_from_file_location)\s*\("
)
_STARTS = re.compile(
    r"(?:subprocess|sp)\.(?:run|call|check_call|check_output|Popen)|os\.system|(?:check_)?call|Popen"
)
_PATHS = ("str", "Path", "pathlib.Path", "os.fspath")  # a path, as another type
_LOOKS = ("exists", "is_file", "isfile")
_WRITES = re.compile(r"add_custom_command|execute_process|externalproject_add|fetchcontent_\w+")
# CMake commands that run scripts, or name those that compilers and rules then run.
_RUNS = re.compile(r"set|list|set_target_properties|set_property|add_custom_\w+|execute_process")
_OWN_SCRIPT = re.compile(r"\$\{\w+_(?:SOURCE|LIST)_DIR\}/[\w./+-]+\.(?:py|sh|pl)")
_FILE_WRITES = ("WRITE", "APPEND", "GENERATE", "COPY", "DOWNLOAD", "RENAME", "CONFIGURE")


# A file, the line, whether only a condition reads it, and whether only its text is read.
_Named = tuple[str, int, bool, bool]


@dataclass(frozen=True, slots=True)
class Reference:
    """A file that another names. where: a file with its line; by: the file that names it, "" for
    settings; conditional: the build may do without."""

    where: str
    by: str
    file: str
    conditional: bool = False


@lru_cache(maxsize=1)
def references_of(tree: SourceTree) -> tuple[Reference, ...]:
    """What the build reads, from its entries on, each reference once, in the order of reading."""
    found: dict[Reference, None] = {}
    todo = list(_entries(tree))
    read = set[tuple[str, bool]]()
    while todo:
        one = todo.pop(0)
        found[one] = None
        if (one.file, one.conditional) in read or not (tree.root / one.file).is_file():
            continue
        read.add((one.file, one.conditional))
        for file, line, conditional, data in _named(tree, one.file):
            if not any(file.startswith(f"{module}/") for module in tree.modules):
                where, conditional = f"{one.file}:{line}", conditional or one.conditional
                other = Reference(where, one.file, file, conditional)
                if data:
                    found[other] = None
                else:
                    todo.append(other)
    return tuple(found)


def _entries(tree: SourceTree) -> Iterator[Reference]:
    """The files that the build starts from: those its command names, else those at the root."""
    project = settings_of(tree)
    command = " ".join(project.build or ()) if project is not None else ""
    files = list(_of_command(tree, command))
    yield from (Reference(_BUILD, "", file) for file in files)
    if not any(map(is_build, files)):  # no command, or one that names no file
        kinds = ("setup.py", "CMakeLists.txt", "meson.build")
        yield from (Reference(file, "", file) for file in kinds if is_or_was(tree, file))
    for file in ("setup.py", "pyproject.toml"):
        text = tree.read(file).text
        if re.search(r"cmake|scikit.build", text, re.IGNORECASE):
            folders = re.findall(r"[\"']([\w./-]+)[\"']", text)
            for lists in dict.fromkeys(_lists_of(folder) for folder in (".", *folders)):
                if lists in removed_files(tree) or (tree.root / lists).is_file():
                    yield Reference(f"{file}:{_first_line_with(text, 'cmake')}", file, lists)
                    break


def _of_command(tree: SourceTree, command: str) -> Iterator[str]:
    """The files of the project that a build command starts from."""
    yield from (word for word in command.split() if re.fullmatch(r"[^-].*\.(?:py|sh|pl)", word))
    words = re.split(r"[\s;&|]+", command)
    if "pip" in words or "build" in words:
        yield from (file for file in ("setup.py",) if is_or_was(tree, file))
    if "make" in words and not re.search(r"\s-[fC]|\bcmake\b", command):
        yield from (file for file in MAKEFILES if is_or_was(tree, file))
    if "cmake" in words:
        source = re.search(r"\bcmake\s(?:[^;&|]*?\s)?-S\s*(\S+)", command)
        yield _lists_of(source[1] if source else ".")


def settings_of(tree: SourceTree) -> Project | None:
    """The project's settings; None if there are none, or they cannot be read."""
    try:
        return parse(tree.root / "pyproject.toml")
    except InvalidInputError:
        return None


def callable_of(tree: SourceTree, project: Project) -> str:
    """The Python file of the callable's module; "" if it is not here."""
    return next((one for one in callable_files(project) if (tree.root / one).is_file()), "")


def callable_files(project: Project) -> list[str]:
    """Where the callable's module may be."""
    module = project.callable.partition(":")[0].replace(".", "/")
    ends = (".py", "/__init__.py")
    return [os.path.normpath(f"{project.path}/{module}{end}") for end in ends]


@lru_cache(maxsize=1)
def called_modules(tree: SourceTree) -> dict[str, list[tuple[Import, str]]]:
    """Modules that what is called reaches, with the imports of each and the file that answers each,
    "" for none. Without a callable, all that packages reach."""
    packages, here = packages_of(tree), frozenset(tree.files)
    project = settings_of(tree)
    called = callable_of(tree, project) if project is not None else ""
    above = [f"{folder}/__init__.py" for folder in PurePosixPath(called).parents]
    todo = [called, *above] if called else packages.outermost()
    found: dict[str, list[tuple[Import, str]]] = {file: [] for file in todo}
    while todo:
        module = todo.pop()
        for one in packages.imports_of(module):
            places = list(files_of(tree, one))
            file = next((file for file in places if file in here), "")
            if not file:
                file = next(filter(tree.is_there, places), "")
            found[module].append((one, file))
            inits = (f"{folder}/__init__.py" for folder in packages.folders.get(one.package, ()))
            reached = {one for one in (file, *inits) if one and one not in found}
            todo += sorted(reached)
            found |= {one: [] for one in reached}
    return found


def _named(tree: SourceTree, file: str) -> Iterator[_Named]:
    """What one build file names."""
    name, text = PurePosixPath(file).name, tree.read(file).text
    if name.endswith(".py"):
        yield from _of_python(tree, file)
    elif is_cmake(name):
        yield from _of_cmake(tree, file)
    elif name in MAKEFILES or name.endswith(".mk"):
        entries = (one for one in MAKEFILES if file in makefile_of(tree, one).files)
        make = makefile_of(tree, next(entries, file))
        for at, included, needed in make.includes:
            literal = at.file == file and needed and not re.search(rf"[*{ANY}]", included)
            if literal and not make.makes(included):
                yield included, at.number, False, False
        for script, at in make.scripts(_goals(tree)):
            if at.file == file and not make.makes(script):
                yield script, at.number, at.conditional, False
    elif name == "meson.build":
        for match in _MESON.finditer(text):
            last = "/meson.build" if match[0].startswith("subdir") else ""
            beside = os.path.normpath(PurePosixPath(file).parent / (match[1] + last))
            yield beside, line_of(text, match.start()), False, False


def _goals(tree: SourceTree) -> list[str]:
    """The targets that the build's command gives to make."""
    program, *words = (project.build if (project := settings_of(tree)) else None) or ("",)
    return [one for one in words if program == "make" and not re.search(r"^-|=", one)]


def _of_cmake(tree: SourceTree, file: str) -> Iterator[_Named]:
    commands = cmake_file(tree, file).commands
    for one in commands:
        named = included(tree, file, one)
        if one.name in ("add_subdirectory", "configure_file") and one.words:
            named = path_of(tree, file, one.texts[0])
            if named and one.name == "add_subdirectory":
                named = _lists_of(named)
            elif any(_is_written(other, one.texts[0]) for other in commands):
                named = None
        elif one.name == "file" and one.texts[:1] in (["READ"], ["STRINGS"]) and one.words[1:]:
            named = path_of(tree, file, one.texts[1])
        if named:
            yield named, one.line, one.conditional, False
        others = [other for other in commands if other is not one]
        for script in filter(_OWN_SCRIPT.fullmatch, one.texts if _RUNS.fullmatch(one.name) else ()):
            path = path_of(tree, file, script)
            if path and not any(_is_written(other, script) for other in others):
                yield path, one.line, one.conditional, True


def _is_written(command: CMakeCommand, name: str) -> bool:
    """Whether a command of CMake writes a file of this name."""
    writes = command.name == "file" and command.texts[:1] and command.texts[0] in _FILE_WRITES
    last = re.escape(name.rpartition("/")[2])
    return bool(writes or _WRITES.fullmatch(command.name)) and any(
        re.search(rf"(?<![\w.-]){last}(?![\w.-])", text) for text in command.texts
    )


def _of_python(tree: SourceTree, file: str) -> Iterator[_Named]:
    """The project's modules that a build script imports, found beside it or at the root, and the
    files that it reads."""
    text, folder = tree.read(file).text, PurePosixPath(file).parent
    try:
        nodes = nodes_of(text)
        script = script_of(tree, file) if _READS.search(text) else None
    except NOT_PYTHON:
        return
    for node in nodes:
        found = list[str]()
        if isinstance(node, ast.Import):
            for one in node.names:
                found += _module_file(tree, folder, one.name)
        elif isinstance(node, ast.ImportFrom):
            found += _imported_from(tree, folder, node)
        elif script and isinstance(node, ast.Call):
            path, run = _read_path(script, node), _run_script(script, node)
            named = os.path.normpath(path or run or ".")
            if named != "." and not (
                is_optional(text, node.lineno, also=()) or _may_write(text, named)
            ):
                yield named, node.lineno, False, not (run or _runs(node))
            continue
        else:
            continue
        optional = bool(found) and is_optional(text, node.lineno)
        yield from ((one, node.lineno, optional, False) for one in found)


def _runs(call: ast.Call) -> bool:
    """Whether a call runs the file that it reads."""
    return dotted(call.func).rpartition(".")[2] in ("run_path", "spec_from_file_location")


def _run_script(script: SetupScript, call: ast.Call) -> str:
    """The script of the project that a call of subprocess runs; "" if there is none."""
    if not _STARTS.fullmatch(dotted(call.func)) or not call.args:
        return ""
    if any(one.arg == "cwd" for one in call.keywords):
        return ""
    given = call.args[0]
    parts = given.elts if isinstance(given, ast.List | ast.Tuple) else [given]
    values = (script.values(one) for one in parts)
    texts = [one[0].text if len(one) == 1 and one[0].sure else ANY for one in values]
    return script_run(texts if len(texts) > 1 else texts[0].split() if texts else [])


def _read_path(script: SetupScript, call: ast.Call) -> str:
    """The file below the project that a call reads, itself or through a function of the script;
    "" if it reads none, or text does not tell."""
    place = _read_place(call) or _read_by_function(script, call)
    if isinstance(place, ast.Name) and any(
        _looks(one) and place.id in [given.arg for given in one.args.args]
        for one in script.functions_around(place.lineno)
    ):
        return ""
    texts = script.values(place) if place is not None else ()
    path = texts[0].text if len(texts) == 1 and texts[0].sure else ANY
    literal = re.fullmatch(r"\w[\w./+-]*\.\w+|\w+", path) is not None
    return path if literal and ".." not in path else ""


def _read_place(call: ast.Call) -> ast.expr | None:
    """The path in a call that reads a file; None in others."""
    last = dotted(call.func).rpartition(".")[2] or getattr(call.func, "attr", "")
    place = next(iter(call.args), None)
    if last in ("read_text", "read_bytes") and isinstance(call.func, ast.Attribute):
        place = call.func.value
    elif last == "spec_from_file_location":
        place = call.args[1] if len(call.args) > 1 else None
    elif last == "open" and isinstance(call.func, ast.Attribute) and call.func.attr == "open":
        place = place if dotted(call.func) in ("io.open", "codecs.open") else None
    elif last not in ("open", "run_path"):
        return None
    mode = call.args[1] if last == "open" and len(call.args) > 1 else None
    mode = next((one.value for one in call.keywords if one.arg == "mode"), mode)
    reads = mode is None or (isinstance(mode, ast.Constant) and "r" in str(mode.value))
    return place if reads else None


def _read_by_function(script: SetupScript, call: ast.Call) -> ast.expr | None:
    """The argument of a call that a function of the script takes as the path of a file it reads."""
    for function in script.functions(dotted(call.func)):
        given = {one.arg: value for one, value in zip(function.args.args, call.args, strict=False)}
        given |= {one.arg: one.value for one in call.keywords if one.arg}
        for node in ast.walk(function):
            place = _read_place(node) if isinstance(node, ast.Call) else None
            if isinstance(place, ast.Call) and dotted(place.func) in _PATHS and place.args:
                place = place.args[0]
            if isinstance(place, ast.Name) and place.id in given:
                optional = is_optional(script.text, place.lineno, also=())
                return None if optional or _looks(function) else given[place.id]
    return None


def _looks(function: ast.FunctionDef) -> bool:
    """Whether a function asks if a file is there."""
    return any(getattr(one, "attr", "") in _LOOKS for one in ast.walk(function))


def _may_write(text: str, path: str) -> bool:
    """Whether a script names the file in a call that writes, too."""
    name = re.escape(path.rpartition("/")[2])
    return re.search(rf"{name}['\"][^\n]*(?:['\"][wax]b?\+?['\"]|write_)", text) is not None


def _imported_from(tree: SourceTree, folder: PurePosixPath, node: ast.ImportFrom) -> list[str]:
    """The module of a `from` import, and the names of a package that are modules of it."""
    dotted = "." * node.level + (node.module or "")
    found = _module_file(tree, folder, dotted)
    bound = bound_names(tree, found[0]) if found else frozenset[str]()
    if bound is None or (found and not found[0].endswith("/__init__.py")):
        return found
    joint = "." if node.module else ""
    for one in node.names:
        if one.name not in bound:
            found += _module_file(tree, folder, f"{dotted}{joint}{one.name}")
    return found


def _module_file(tree: SourceTree, folder: PurePosixPath, dotted: str) -> list[str]:
    """The file of a module of the project, here or removed; [] for one of others."""
    plain = dotted.lstrip(".")
    level = len(dotted) - len(plain)
    parents = [folder, *folder.parents]
    if not plain or level > len(parents):
        return []
    places = [parents[level - 1]] if level else [folder, PurePosixPath()]
    for place in dict.fromkeys(places):
        path = (place / plain.replace(".", "/")).as_posix()
        files = [f"{path}.py", f"{path}/__init__.py"]
        if here := [file for file in files if (tree.root / file).is_file()]:
            return here[:1]
        gone = [file for file in files if file in removed_files(tree)]
        if gone and not (tree.root / path).is_dir() and not _is_installed(plain):
            return gone[:1]
    return []


def _is_installed(dotted: str) -> bool:
    """Whether a module is Python's own or of an installed package."""
    first = dotted.partition(".")[0]
    try:
        spec = importlib.util.find_spec(first)
    except (ImportError, ValueError):
        return False
    places = [*(spec.submodule_search_locations or ()), spec.origin or ""] if spec else []
    return first in sys.stdlib_module_names or any("-packages" in place for place in places)


def broken_files(tree: SourceTree) -> dict[str, tuple[int, str]]:
    """Files of CMake that the build reads and cannot parse, each with the line and the reason."""
    read = dict.fromkeys(one.file for one in references_of(tree) if is_cmake(one.file))
    return {file: why for file in read if (why := cmake_file(tree, file).broken) is not None}


def missing_references(tree: SourceTree) -> list[str]:
    """Files that the build reads whatever its conditions, and that are not here."""
    return [
        one.file
        for one in references_of(tree)
        if not one.conditional and not (tree.root / one.file).is_file()
    ]


def _lists_of(folder: str) -> str:
    return os.path.normpath(f"{folder}/CMakeLists.txt")


def _first_line_with(text: str, word: str) -> int:
    return line_of(text, max(0, text.lower().find(word)))
