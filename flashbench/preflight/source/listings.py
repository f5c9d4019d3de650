"""The units that build files name one by one."""

import ast
import contextlib
import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import PurePosixPath

from flashbench.builds.content import UNITS
from flashbench.preflight.fixes import edit, replace
from flashbench.preflight.source.cmake import base_of, cmake_file, evaluated, is_cmake
from flashbench.preflight.source.makefile import MAKEFILES, makefile_of
from flashbench.preflight.source.setup_script import ANY, NOT_PYTHON, script_of
from flashbench.preflight.source.tree import SourceTree, is_test

_WORD = re.compile(rf"[\w./+${{}}-]+(?:{'|'.join(map(re.escape, UNITS))})(?![\w.])")
_HERE = re.compile(
    r"\$\{?(CMAKE_CURRENT_SOURCE_DIR|CMAKE_CURRENT_LIST_DIR|PROJECT_SOURCE_DIR|"
    r"CMAKE_SOURCE_DIR|srcdir|SRCDIR)\}?(?:/|\Z)"
)
_OF_SOURCES = re.compile(r"sources?|srcs?|units", re.IGNORECASE)
_LEFT_OUT = re.compile(r"exclu|skip|ignor|remov|generat|hip", re.IGNORECASE)
_CMAKE_LISTS = re.compile(
    r"set|list|add_library|add_executable|target_sources|cuda_add_\w+|\w*_add_\w*(module|library)"
)
_CMAKE_MAKES = ("add_custom_command", "configure_file", "file", "execute_process")
CMAKE_FOLDERS = re.compile(r"\w*include_directories")
_CHANGES = ("REMOVE", "FILTER", "TRANSFORM")  # what `list` does besides naming units
Listed = tuple[str, str, int]  # build file, unit as written there, line


def listed(tree: SourceTree) -> Iterator[Listed]:
    """Yield what build files list, without names that their text does not tell."""
    return (one for one in _all_listed(tree) if not _is_unclear(one[1]))


def unclear(tree: SourceTree) -> Iterator[str]:
    """Where build files list or include what their text does not tell."""
    for file, name, line in _all_listed(tree):
        if _is_unclear(name) and "BINARY_DIR}" not in name:  # the build's own folder
            shown = name.replace(ANY, "...")
            yield f"{file}:{line} lists {shown}, which only the build evaluates"
    for file in tree.build_files:
        if file.rpartition("/")[2] in MAKEFILES:
            for at, name, needed in makefile_of(tree, file).includes:
                if needed and ANY in name:
                    shown = name.replace(ANY, "...")
                    yield f"{at.file}:{at.number} includes {shown}, which only make evaluates"


def include_folders(tree: SourceTree) -> Iterator[Listed]:
    """Yield the include directories below the project that setup.py and CMake name."""
    for file in tree.build_files:
        if file.rpartition("/")[2] == "setup.py":
            with contextlib.suppress(*NOT_PYTHON):
                for one in script_of(tree, file).folders():
                    if one.sure and not _is_unclear(one.text):
                        yield file, one.text, one.line
        for command in cmake_file(tree, file).commands if is_cmake(file) else ():
            words = command.words[command.name.startswith("target") :]
            for word, line in words if CMAKE_FOLDERS.fullmatch(command.name) else ():
                for name in evaluated(tree, word, command.loops):
                    if plain := folder_of_cmake(tree, file, name):
                        yield file, plain, line
        if file.rpartition("/")[2] in MAKEFILES:
            for word, at in makefile_of(tree, file).include_flags():
                if re.fullmatch(r"[\w.+-][\w./+-]*", word):
                    yield file, word, at.number


def folder_of_cmake(tree: SourceTree, file: str, name: str) -> str:
    """The include directory that a word of CMake names; "" if text does not tell."""
    built = re.fullmatch(r"\$<BUILD_INTERFACE:(.*)>", name)
    plain = _plain(tree, file, built[1] if built else name)
    return plain if re.fullmatch(r"[\w./+-]+", plain) and not plain.isupper() else ""


def add_to_build(tree: SourceTree, unit: str) -> str:
    """The command that adds a unit after the nearest one with a line of its own in a build file."""

    def apart(one: Listed) -> int:
        return len(PurePosixPath(os.path.relpath(unit, base_of(tree, one[0]) / one[1])).parts)

    listing = sorted(listed(tree), key=apart)
    for file, name, line in listing:
        text, path = tree.read(file).text, os.path.relpath(unit, base_of(tree, file))
        if (made := _object(name)) in text and name not in text:
            name, path = made, _object(path)
        mark = '"' if f'"{name}"' in text else "'" if f"'{name}'" in text else ""
        command = replace(
            text,
            f"{file}:{line}",
            name,
            f"{name}{mark}, {mark}{path}" if mark else f"{name} {path}",
        )
        if command.startswith("sed") and (mark or not file.endswith(".py")):
            return command
    where = next((f"{file}:{line}" for file, _, line in listed(tree)), "")
    return edit(
        where or next(filter(is_build, tree.build_files), unit), f"add {unit} to the sources"
    )


def _object(unit: str) -> str:
    return f"{unit.rpartition('.')[0]}.o"


def _plain(tree: SourceTree, file: str, name: str) -> str:
    """A name without variables for the folder that names in this file are relative to."""
    plain = _HERE.sub("", name) or "."
    if "CMAKE_CURRENT_LIST_DIR" in name:
        plain = os.path.relpath(PurePosixPath(file).parent / plain, base_of(tree, file))
    return plain


def _is_unclear(name: str) -> bool:
    return ANY in name or "$" in name


@lru_cache(maxsize=1)
def _all_listed(tree: SourceTree) -> list[Listed]:
    found = dict[Listed, None]()
    for file in (one for one in tree.build_files if is_build(one) or _compiles_itself(tree, one)):
        for where, name, line in _in(tree, file):
            plain = _plain(tree, file, name)
            if not plain.startswith(("/", "-")):
                found[where, plain, line] = None
    return list(found)


def is_build(file: str) -> bool:
    name = file.rpartition("/")[2]
    return name in ("setup.py", "CMakeLists.txt", "meson.build") or name.lower().endswith(
        ("makefile", ".cmake")
    )


def _compiles_itself(tree: SourceTree, file: str) -> bool:
    """Whether a module compiles units when it is imported or called."""
    return file.endswith(".py") and not is_test(file) and "cpp_extension" in tree.read(file).text


def _in(tree: SourceTree, file: str) -> Iterator[Listed]:
    text = tree.read(file).text
    if file.endswith(".py"):
        yield from ((file, *one) for one in _in_python(tree, file))
    elif is_cmake(file):
        yield from ((file, *one) for one in _in_cmake(tree, file))
    elif file.endswith("meson.build"):
        for number, line in enumerate(text.splitlines(), 1):
            for match in _WORD.finditer(line.partition("#")[0]):
                yield file, match[0], number
    else:
        yield from _in_make(tree, file)


def _in_python(tree: SourceTree, file: str) -> Iterator[tuple[str, int]]:
    """Find sources of extensions that the text gives, and literals in lists named after sources."""
    try:
        script = script_of(tree, file)
    except NOT_PYTHON:
        return
    given = (one for one in script.sources() if one.sure and ANY not in one.text)
    seen = {(one.text, one.line) for one in given if _WORD.fullmatch(one.text)}
    for node in script.nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if not _OF_SOURCES.search(name) or _LEFT_OUT.search(name):
                continue
            entry = node.value
            for value in entry.elts if isinstance(entry, ast.List | ast.Tuple) else ():
                known = value.value if isinstance(value, ast.Constant) else None
                if isinstance(known, str) and _WORD.fullmatch(known):
                    seen.add((known, value.lineno))
    yield from sorted(seen, key=lambda one: one[::-1])


def _in_cmake(tree: SourceTree, file: str) -> Iterator[tuple[str, int]]:
    """Find what targets and source lists hold, except what another command writes."""
    commands = cmake_file(tree, file).commands
    made = {
        PurePosixPath(unit).name
        for command in commands
        if command.name in _CMAKE_MAKES
        for word in command.texts
        for unit in _WORD.findall(word)
    }
    for command in commands:
        if not _CMAKE_LISTS.fullmatch(command.name) or not command.words:
            continue
        first = command.texts[0]
        if _LEFT_OUT.search(first) or first.startswith(_CHANGES):
            continue
        for word, line in command.words:
            for unit in _WORD.findall(word):
                if PurePosixPath(unit).name not in made:
                    yield from ((name, line) for name in evaluated(tree, unit, command.loops))


def _in_make(tree: SourceTree, file: str) -> Iterator[Listed]:
    """Find what a makefile compiles; `ANY` stands for what its text leaves open."""
    seen = set()
    folder = PurePosixPath(file).parent
    for name, line in makefile_of(tree, file).listed(_LEFT_OUT):
        if name not in seen and (ANY in name or _WORD.fullmatch(name)):
            seen.add(name)
            if folder != (other := PurePosixPath(line.file).parent):  # included from elsewhere
                name = os.path.relpath(folder / name, other)
            yield line.file, name, line.number
