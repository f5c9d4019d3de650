"""The units that build files name one by one."""

import ast
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from flashbench.preflight.source.cxx import UNITS
from flashbench.preflight.source.setup_script import ANY, UNREADABLE, script_of
from flashbench.preflight.source.tree import SourceTree

_WORD = re.compile(rf"[\w./+${{}}-]+(?:{'|'.join(map(re.escape, UNITS))})(?![\w.])")
_HERE = re.compile(
    r"\$\{?(CMAKE_CURRENT_SOURCE_DIR|CMAKE_CURRENT_LIST_DIR|PROJECT_SOURCE_DIR|"
    r"CMAKE_SOURCE_DIR|srcdir|SRCDIR)\}?/"
)
_OF_SOURCES = re.compile(r"sources?|srcs?|units", re.IGNORECASE)
_LEFT_OUT = re.compile(r"exclu|skip|ignor|remov|generat|hip", re.IGNORECASE)
CMAKE_COMMENT = re.compile(r"#\[(=*)\[.*?\]\1\]|#[^\n]*", re.DOTALL)
CMAKE_COMMAND = re.compile(r"\b(\w+)\s*\(((?:[^()]|\([^()]*\))*)\)")
_CMAKE_LISTS = re.compile(
    r"(set|list|add_library|add_executable|target_sources|cuda_add_\w+|\w*_add_\w*(module|library))\Z",
    re.IGNORECASE,
)
_CMAKE_MAKES = re.compile(r"(add_custom_command|configure_file|file|execute_process)\Z", re.I)
_ASSIGNED = re.compile(r"\s*(?:override\s+|export\s+)?([\w.-]+)\s*[:?+]*=(.*)")
Listed = tuple[str, int]  # the unit as written, and its line


def listed(tree: SourceTree) -> Iterator[tuple[str, str, int]]:
    """Yield build file, unit as written there, and line."""
    for file in tree.build_files:
        for name, line in _in(tree, file):
            plain = _HERE.sub("", name)
            if "$" not in plain and not plain.startswith(("/", "-")):
                yield file, plain, line


def is_build(file: str) -> bool:
    name = PurePosixPath(file).name
    return name in ("setup.py", "CMakeLists.txt", "meson.build") or name.lower().endswith(
        ("makefile", ".cmake")
    )


def _in(tree: SourceTree, file: str) -> Iterator[Listed]:
    if not is_build(file):
        return
    text = tree.read(file).text
    if file.endswith(".py"):
        yield from _in_python(tree, file)
    elif file.endswith((".txt", ".cmake")):
        yield from _in_cmake(text)
    elif file.endswith("meson.build"):
        for number, line in enumerate(text.splitlines(), 1):
            for match in _WORD.finditer(line.partition("#")[0]):
                yield match[0], number
    else:
        yield from _in_make(text)


def _in_python(tree: SourceTree, file: str) -> Iterator[Listed]:
    """Find sources of extensions that the text gives, and literals in lists named after sources."""
    try:
        script = script_of(tree, file)
    except UNREADABLE:
        return
    given = (one for one in script.sources() if one.sure and ANY not in one.text)
    seen = {(one.text, one.line) for one in given if _WORD.fullmatch(one.text)}
    for node in ast.walk(script.module):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if not _OF_SOURCES.search(name) or _LEFT_OUT.search(name):
                continue
            entry = node.value
            for value in entry.elts if isinstance(entry, ast.List | ast.Tuple) else ():
                known = value.value if isinstance(value, ast.Constant) else None
                if isinstance(known, str) and _WORD.fullmatch(known):
                    seen.add((known, value.lineno))
    yield from sorted(seen, key=lambda one: one[1])


def _in_cmake(text: str) -> Iterator[Listed]:
    """Find what targets and source lists hold, except what another command writes."""
    code = CMAKE_COMMENT.sub(lambda found: "\n" * found[0].count("\n"), text)
    made = {
        PurePosixPath(word).name
        for command in CMAKE_COMMAND.finditer(code)
        if _CMAKE_MAKES.match(command[1])
        for word in _WORD.findall(command[2])
    }
    for command in CMAKE_COMMAND.finditer(code):
        if not _CMAKE_LISTS.match(command[1]):
            continue
        if _LEFT_OUT.search(command[2].split(None, 1)[0] if command[2].split() else ""):
            continue
        if re.match(r"\s*(REMOVE|FILTER|TRANSFORM)", command[2]):
            continue
        for word in _WORD.finditer(command[2]):
            if PurePosixPath(word[0]).name not in made:
                yield word[0], code.count("\n", 0, command.start(2) + word.start()) + 1


def _in_make(text: str) -> Iterator[Listed]:
    """Find what a makefile's variables hold, except what its rules write."""
    made = {
        word
        for line in text.splitlines()
        if not line.startswith("\t")
        for word in _WORD.findall(line.partition(":")[0] if ":" in line else "")
    }
    for number, line in enumerate(text.splitlines(), 1):
        match = _ASSIGNED.match(line.partition("#")[0]) if not line.startswith("\t") else None
        if match and not _LEFT_OUT.search(match[1]):
            for word in _WORD.findall(match[2]):
                if word not in made:
                    yield word, number
