"""Headers of the project that no include directory of the build reaches."""

import os
import re
from collections.abc import Iterator
from functools import lru_cache

from flashbench.preflight.source.cmake import cmake_file, evaluated, is_cmake
from flashbench.preflight.source.compiled_units import build_of
from flashbench.preflight.source.cxx import Include
from flashbench.preflight.source.generated import generated
from flashbench.preflight.source.lines import line_of
from flashbench.preflight.source.listings import CMAKE_FOLDERS, folder_of_cmake
from flashbench.preflight.source.makefile import MAKEFILES, makefile_of
from flashbench.preflight.source.others import installed, of_others
from flashbench.preflight.source.providers import outside
from flashbench.preflight.source.references import references_of
from flashbench.preflight.source.search_path import search_path_of
from flashbench.preflight.source.setup_script import ANY, NOT_PYTHON, script_of
from flashbench.preflight.source.tree import SourceTree, is_test

# Folders that hold no header of the project: of packages, and of the build.
_OF_PACKAGES = re.compile(
    r"\$[{(](?i:Python|Torch|CUDA|pybind11|nanobind|OpenMP|MPI|NumPy|NCCL|HIP|ROCM|"
    r"CMAKE_CUDA|CMAKE_(?:CURRENT_)?BINARY_DIR|PROJECT_BINARY_DIR)\w*[)}].*"
    r"|\$<INSTALL_INTERFACE:.*|/.*|[A-Z]+"
)
_OTHER_COMMANDS = re.compile(
    r"(?:.*[\s=])?-I.*|\w*INCLUDE_DIRECTORIES|CMAKE_INCLUDE_CURRENT_DIR|FILE_SET|INCLUDES?|INCLUDE_DIRS"
)
_IN_PYTHON = re.compile(
    r"[\"']include_dirs[\"']|\.include_dirs|-I|include_path(?!s\()|add_include|CPATH|include_direct"
)
_IN_SETTINGS = re.compile(r"-I|CPATH|include[-_]dirs|CPLUS_INCLUDE|C_INCLUDE")
_PACKAGE_FLAG = re.compile(r"-I\s*\$[({](?i:shell python|python|torch|cuda|pybind11|nccl|mpi)\w*")
_FLAGS_OF_SHELL = re.compile(
    r"\$[({]shell\b(?![^\n]*(?:python|pybind11|numpy|torch))[^\n]*(?:cflags|inc|pkg-config|-I)"
)


def unreached(tree: SourceTree, includer: str, include: Include) -> str:
    """The folder whose header an include of a compiled file means, if no include directory that
    build files state has that header; "" if one has, or the header is not the project's."""
    name, build = os.path.normpath(include.name), build_of(tree)
    if include.conditional or include.asked or "." not in name or name.startswith(("..", "/")):
        return ""
    if build.unknown or not build.units or includer not in _reached(tree) or of_others(name):
        return ""
    search = search_path_of(tree)
    found = search.find(includer, include.name)
    beside = os.path.normpath(f"{os.path.dirname(includer)}/{name}")  # noqa: PTH120
    if found is None or found == beside.lstrip("/") or not f"/{found}".endswith(f"/{name}"):
        return ""
    if search.was_removed(includer, include.name):
        return ""  # moved from where the compiler looks
    places = (os.path.normpath(f"{folder}/{name}") for folder in search.stated)
    if any(map(tree.is_there, places)):
        return ""
    if installed(name) or tree.in_submodules(name) or generated(tree, name):
        return ""
    return found.removesuffix(name).rstrip("/") or "."


@lru_cache(maxsize=1)
def _reached(tree: SourceTree) -> frozenset[str]:
    """Units of the build and the headers that stand where their compiler looks."""
    seen = set(build_of(tree).units)
    todo, stated = list(seen), search_path_of(tree).stated
    while todo:
        file = todo.pop()
        for include in tree.read(file).includes:
            folders = (os.path.dirname(file), *stated)  # noqa: PTH120
            places = (os.path.normpath(os.path.join(one, include.name)) for one in folders)  # noqa: PTH118
            found = next(filter(tree.is_there, places), "")
            if found and found not in seen:
                seen.add(found)
                todo.append(found)
    return frozenset(seen)


@lru_cache(maxsize=1)
def unread_folders(tree: SourceTree) -> str:
    """Where the build may have include directories that its text does not tell; "" if nowhere."""
    if elsewhere := outside(tree):
        return elsewhere
    read = {one.file for one in references_of(tree)}
    for file in tree.build_files:
        name = file.rpartition("/")[2]
        if is_test(file):
            continue
        if is_cmake(file):
            lines = _in_cmake(tree, file)
        elif name == "setup.py":
            lines = _in_python(tree, file)
        elif name.lower().endswith("makefile") or name in MAKEFILES:
            lines = _in_make(tree, file)
        else:
            relevant = file in read or name in ("pyproject.toml", "setup.cfg", "meson.build")
            pattern = re.compile("include_dir") if name == "meson.build" else _IN_SETTINGS
            lines = _matches(tree, file, pattern) if relevant else iter(())
        if line := next(lines, 0):
            return f"{file}:{line} may name include directories that only the build evaluates"
    for file in ("pyproject.toml", "setup.cfg"):
        if line := next(_matches(tree, file, _IN_SETTINGS), 0):
            return f"{file}:{line} may name include directories"
    return ""


def _in_cmake(tree: SourceTree, file: str) -> Iterator[int]:
    for command in cmake_file(tree, file).commands:
        if CMAKE_FOLDERS.fullmatch(command.name):
            for word, line in command.words[command.name.startswith("target") :]:
                for one in evaluated(tree, word, command.loops):
                    if not (folder_of_cmake(tree, file, one) or _OF_PACKAGES.fullmatch(one)):
                        yield line
        elif command.name not in ("install", "message", "find_path"):
            yield from (line for word, line in command.words if _OTHER_COMMANDS.fullmatch(word))


def _in_python(tree: SourceTree, file: str) -> Iterator[int]:
    try:
        folders = script_of(tree, file).folders()
    except NOT_PYTHON:
        yield 1
        return
    yield from (one.line or 1 for one in folders if not one.sure or ANY in one.text)
    yield from _matches(tree, file, _IN_PYTHON)


def _in_make(tree: SourceTree, file: str) -> Iterator[int]:
    make = makefile_of(tree, file)
    if make.unclear:
        yield make.unclear.number
    for folder, line in make.include_flags():
        if ANY in folder and not _PACKAGE_FLAG.search(line.text):
            yield line.number
    yield from _matches(tree, file, _FLAGS_OF_SHELL)


def _matches(tree: SourceTree, file: str, pattern: re.Pattern[str]) -> Iterator[int]:
    text = tree.read(file).text
    yield from (line_of(text, one.start()) for one in pattern.finditer(text))
