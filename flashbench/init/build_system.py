"""How a repository is built, and the settings that say so."""

import json
import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from flashbench.init.attention_functions import Function
from flashbench.other_tools import asv_conf
from flashbench.preflight.source.tree import SourceTree
from flashbench.pyproject import read_pyproject
from flashbench.revisions import backend

_JIT = re.compile(r"\bcpp_extension\b")
_LIBRARY = re.compile(r"[\w./-]*\blib[\w-]+\.so\b")
_SHARED = re.compile(r"\badd_library\s*\(\s*(\w+)\s+SHARED")


@dataclass(frozen=True)
class FoundBuild:
    """command: as in the settings, with the file that it is from. shared_object: what ctypes
    loads, relative to the root. sources: what is compiled at import. path: where imports start
    after the build, and the adapter is: a folder; "": where they do before."""

    command: tuple[str, ...] = ()
    file: str = ""
    shared_object: str = ""
    sources: tuple[str, ...] = ()
    path: str = ""


def build_of(tree: SourceTree, function: Function) -> FoundBuild:
    """The build that the function needs, judged by the files at the root."""
    files = set(tree.files)
    if "setup.py" in files and backend.setup_compiles(tree.read("setup.py").text):
        return FoundBuild(("python", "setup.py", "build_ext", "--inplace"), "setup.py")
    makefile = next((one for one in ("Makefile", "makefile", "GNUmakefile") if one in files), "")
    if not function.module:
        return _of_library(tree, function, makefile)
    if _has_backend(tree):
        return FoundBuild(backend.COMMAND, "pyproject.toml", path=backend.FOLDER)
    compiles = [
        file
        for file in tree.files
        if file.endswith(".py") and _JIT.search(tree.read(file).text) and file != "setup.py"
    ]
    if compiles and tree.units:
        return FoundBuild(file=compiles[0], sources=_folders(tree))
    if makefile and tree.units:
        return FoundBuild(("make",), makefile)
    if "CMakeLists.txt" in files and function.parameters[0].type and "." not in function.module:
        return FoundBuild(_cmake(backend.FOLDER), "CMakeLists.txt", path=backend.FOLDER)
    if "CMakeLists.txt" in files and tree.units:
        return FoundBuild(_cmake("build"), "CMakeLists.txt")
    return FoundBuild()


def _has_backend(tree: SourceTree) -> bool:
    file = tree.root / "pyproject.toml"
    return file.is_file() and backend.compiles(read_pyproject(file), tree.files)


def _cmake(folder: str) -> tuple[str, ...]:
    return ("sh", "-c", f"cmake -S . -B {folder} && cmake --build {folder}")


def _of_library(tree: SourceTree, function: Function, makefile: str) -> FoundBuild:
    """The build of a C function: a shared library."""
    if makefile:
        named = _LIBRARY.search(tree.read(makefile).text)
        if named:
            return FoundBuild(("make",), makefile, named[0].removeprefix("./"))
    if "CMakeLists.txt" in tree.files and (
        named := _SHARED.search(tree.read("CMakeLists.txt").text)
    ):
        return FoundBuild(_cmake("build"), "CMakeLists.txt", f"build/lib{named[1]}.so")
    library = f"lib{PurePosixPath(function.file).stem}.so"
    compiler = "cc" if function.file.endswith(".c") else "c++"
    command = (compiler, "-O3", "-march=native", "-shared", "-fPIC", function.file, "-o", library)
    return FoundBuild((*command, "-lm"), "", library)


def _folders(tree: SourceTree) -> tuple[str, ...]:
    """The top folders, or files, of what is compiled, and of its headers."""
    names = [*tree.units, *tree.headers]
    return tuple(dict.fromkeys(PurePosixPath(name).parts[0] for name in names))


def has_asv(tree: SourceTree) -> str:
    """The configuration of an asv suite; "" without one."""
    return next((file for file in tree.files if PurePosixPath(file).name in asv_conf.NAMES), "")


def settings(build: FoundBuild, path: str, adapter: str, cases: dict[str, list[str] | str]) -> str:
    """The tables [tool.flashbench.project] and, if there is something to say, `cases`."""
    lines = ["[tool.flashbench.project]", 'callable = "fb:attention"']
    lines.append(f"build = {json.dumps(list(build.command))}")
    if path != ".":
        lines.append(f"path = {json.dumps(path)}")
    if build.sources:
        lines.append(f"sources = {json.dumps(list(build.sources))}")
    lines.append(f"adapter = {json.dumps(adapter)}")
    return "\n".join([*lines, ""]) + (f"\n{cases_table(cases)}" if cases else "")


def cases_table(cases: dict[str, list[str] | str]) -> str:
    """The table [tool.flashbench.cases]."""
    lines = [f"{name} = {json.dumps(value)}" for name, value in cases.items()]
    return "\n".join(["[tool.flashbench.cases]", *lines, ""])
