"""A library that Python loads by its path is made by a build file or is in git."""

import ast
import difflib
import re
from collections.abc import Iterator
from functools import lru_cache

from flashbench.preflight.finding import CannotCheck, Finding, in_short
from flashbench.preflight.fixes import edit
from flashbench.preflight.source.cmake import is_cmake, targets
from flashbench.preflight.source.listings import is_build
from flashbench.preflight.source.makefile import makefile_of
from flashbench.preflight.source.python_modules import built
from flashbench.preflight.source.references import called_modules
from flashbench.preflight.source.setup_script import (
    ANY,
    NOT_PYTHON,
    SetupScript,
    Text,
    dotted,
    is_optional,
)
from flashbench.preflight.source.tree import SourceTree, is_test

LOADERS = ("load_library", "CDLL", "PyDLL", "LoadLibrary")
_END = re.compile(r"\.so(?:\.\d+)*\Z")
_TAG = re.compile(r"\.(?:abi3|cpython-)[^/]*\Z")


def library_not_built(tree: SourceTree) -> Iterator[Finding | CannotCheck]:
    """Find `ctypes.CDLL` and `torch.ops.load_library` of a file below the project, in what is
    called. A name without a folder is searched by the loader, and may be anyone's, unless it is
    nearly that of a library which the build makes."""
    doubts = list[str]()
    for file in called_modules(tree):
        for one in _loaded(tree, file):
            where, name = f"{file}:{one.line}", one.text.rpartition("/")[2]
            below = "/" in one.text or difflib.get_close_matches(name, _libraries(tree), 1, 0.8)
            path = below and not one.text.startswith("/") and _END.search(name)
            if ANY in name or not one.sure:
                doubts.append(f"{where} loads a library whose name only the run knows")
                continue
            if not path or tree.ending(name) or is_made(tree, name, file):
                continue
            if reason := built(tree).unknown if _computed(tree) else "":
                doubts.append(f"{where} loads {name}; {reason}")
            else:
                made = sorted({*_libraries(tree), *built(tree).modules})[:5]
                others = f"; they make {', '.join(made)}" if made else ""
                found = f"loads {name}, which no build file makes{others}"
                fix = edit(where, "correct it, or add a target of that name to the build")
                yield Finding(where, found, fix)
    yield from in_short(doubts)


def _loaded(tree: SourceTree, file: str) -> Iterator[Text]:
    """Paths that a module loads, each with the line of the call; none that it can do without."""
    text = tree.read(file).text
    if not any(loader in text for loader in LOADERS):
        return
    try:
        script = SetupScript(text, file)
    except NOT_PYTHON:
        return
    for node in script.nodes:
        loader = dotted(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
        if not isinstance(node, ast.Call) or loader not in LOADERS or not node.args:
            continue
        if is_optional(text, node.lineno):
            continue
        for one in script.values(node.args[0]):
            if "ctypeslib" in dotted(node.func) and ".so" not in one.text:
                yield Text(f"./{one.text}.so", node.lineno, one.sure)  # numpy's, of a folder
            elif loader == "load_library" or ".so" in one.text:
                yield Text(one.text, node.lineno, one.sure)


def is_made(tree: SourceTree, name: str, loader: str) -> bool:
    """Whether a build file has a target of this name, or a script names the file."""
    stem = _stem(name)
    if stem in built(tree).last or stem in map(_stem, _libraries(tree)):
        return True
    spelled = re.escape(stem)
    target = re.compile(
        rf"\b(?:shared_library|shared_module|library)\s*\(\s*['\"]{spelled}['\"]"
        rf"|\bname\s*=\s*[\"']{spelled}[\"']"
    )
    literal = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])")
    for file in tree.build_files:
        text = tree.read(file).text
        if file == loader or is_test(file):
            continue
        if literal.search(text) or (not file.endswith(".py") and target.search(text)):
            return True
    return False


def _stem(name: str) -> str:
    return _TAG.sub("", _END.sub("", name)).removeprefix("lib")


@lru_cache(maxsize=1)
def _libraries(tree: SourceTree) -> frozenset[str]:
    """Files of the libraries that CMake and makefiles make."""
    files = [file for file in tree.build_files if not is_test(file)]
    made = {f"lib{one.name}.so" for file in filter(is_cmake, files) for one in targets(tree, file)}
    for file in (file for file in files if file.lower().endswith("makefile")):
        for rule in makefile_of(tree, file).rules:
            made |= {one.rpartition("/")[2] for one in rule.targets if _END.search(one)}
    return frozenset(made - {"lib.so"})


def makes_libraries(tree: SourceTree) -> bool:
    """Whether CMake or make may make a library that is no module."""
    files = filter(is_cmake, tree.build_files)
    return bool(_libraries(tree)) or any(targets(tree, file) for file in files)


def _computed(tree: SourceTree) -> bool:
    files = (file for file in tree.build_files if is_build(file))
    return any(
        file.endswith(".py")
        or (is_cmake(file) and not all(one.name for one in targets(tree, file)))
        for file in files
    )
