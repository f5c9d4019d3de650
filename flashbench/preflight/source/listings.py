"""The units that build files name one by one."""

import ast
import contextlib
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from pathlib import PurePosixPath

from flashbench.preflight.source.cxx import UNITS
from flashbench.preflight.source.lines import line_of
from flashbench.preflight.source.makefile import MAKEFILES, makefile_of
from flashbench.preflight.source.setup_script import ANY, UNREADABLE, script_of
from flashbench.preflight.source.tree import SourceTree, is_test

_WORD = re.compile(rf"[\w./+${{}}-]+(?:{'|'.join(map(re.escape, UNITS))})(?![\w.])")
_HERE = re.compile(
    r"\$\{?(CMAKE_CURRENT_SOURCE_DIR|CMAKE_CURRENT_LIST_DIR|PROJECT_SOURCE_DIR|"
    r"CMAKE_SOURCE_DIR|srcdir|SRCDIR)\}?/"
)
_OF_SOURCES = re.compile(r"sources?|srcs?|units", re.IGNORECASE)
_LEFT_OUT = re.compile(r"exclu|skip|ignor|remov|generat|hip", re.IGNORECASE)
_CMAKE_COMMENT = re.compile(r"#\[(=*)\[.*?\]\1\]|#[^\n]*", re.DOTALL)
CMAKE_COMMAND = re.compile(r"\b(\w+)\s*\(((?:[^()]|\([^()]*\))*)\)")
_CMAKE_LISTS = re.compile(
    r"(set|list|add_library|add_executable|target_sources|cuda_add_\w+|\w*_add_\w*(module|library))\Z",
    re.IGNORECASE,
)
_CMAKE_MAKES = re.compile(r"(add_custom_command|configure_file|file|execute_process)\Z", re.I)
_CMAKE_FOLDERS = re.compile(r"\b(?:target_)?include_directories\s*\(([^()]*)\)", re.IGNORECASE)
_SET = re.compile(r"\bset\s*\(\s*(\w+)\s+\"?([^\s\"()]+)\"?\s*\)", re.IGNORECASE)
_LOOP = re.compile(r"\bforeach\s*\(\s*(\w+)\s+((?!(?:IN|RANGE)\b)[^()]*)\)", re.IGNORECASE)
_REFERENCE = re.compile(r"\$\{(\w+)\}")
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
        if PurePosixPath(file).name in MAKEFILES:
            for at, name, needed in makefile_of(tree, file).includes:
                if needed and ANY in name:
                    shown = name.replace(ANY, "...")
                    yield f"{at.file}:{at.number} includes {shown}, which only make evaluates"


def include_folders(tree: SourceTree) -> Iterator[Listed]:
    """Yield the include directories below the project that setup.py and CMake name."""
    values = _cmake_values(tree)
    for file in tree.build_files:
        if PurePosixPath(file).name == "setup.py":
            with contextlib.suppress(*UNREADABLE):
                for one in script_of(tree, file).folders():
                    if one.sure and not _is_unclear(one.text):
                        yield file, one.text, one.line
        elif is_build(file) and file.endswith((".txt", ".cmake")):
            text = without_comments(tree.read(file).text)
            for command in _CMAKE_FOLDERS.finditer(text):
                words = command[1].replace('"', "").split()
                for name in (name for word in words for name in _evaluated(word, values)):
                    plain = _HERE.sub("", name)
                    if "/" in name and not _is_unclear(plain) and re.fullmatch(r"[\w./+-]+", plain):
                        yield file, plain, line_of(text, command.start())


def _is_unclear(name: str) -> bool:
    return ANY in name or "$" in name


@lru_cache(maxsize=1)
def _all_listed(tree: SourceTree) -> list[Listed]:
    found = dict[Listed, None]()
    for file in (one for one in tree.build_files if is_build(one) or _compiles_itself(tree, one)):
        for where, name, line in _in(tree, file):
            plain = _HERE.sub("", name)
            if not plain.startswith(("/", "-")):
                found[where, plain, line] = None
    return list(found)


def is_build(file: str) -> bool:
    name = PurePosixPath(file).name
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
    elif file.endswith((".txt", ".cmake")):
        values = _cmake_values(tree)
        for word, at in _in_cmake(text):
            yield from ((file, name, at) for name in _evaluated(word, values))
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


def without_comments(text: str) -> str:
    """The code of a CMake file, on its lines."""
    return _CMAKE_COMMENT.sub(lambda found: "\n" * found[0].count("\n"), text)


def _in_cmake(text: str) -> Iterator[tuple[str, int]]:
    """Find what targets and source lists hold, except what another command writes."""
    code = without_comments(text)
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
                yield word[0], line_of(code, command.start(2) + word.start())


@lru_cache(maxsize=1)
def _cmake_values(tree: SourceTree) -> dict[str, list[str]]:
    """Texts of CMake's variables, and of those of its loops, that are the same wherever they are
    set."""
    given: dict[str, set[str]] = defaultdict(set)
    for file in tree.build_files:
        if file.endswith(("CMakeLists.txt", ".cmake")):
            code = without_comments(tree.read(file).text)
            for name, value in (*_SET.findall(code), *_LOOP.findall(code)):
                given[name].add(value)
    values = {name: next(iter(texts)).split() for name, texts in given.items() if len(texts) == 1}
    return {name: words for name, words in values.items() if "$" not in "".join(words)}


def _evaluated(word: str, values: dict[str, list[str]]) -> Iterator[str]:
    """The word with each text of its first variable that has some."""
    known = next((one for one in _REFERENCE.finditer(word) if one[1] in values), None)
    if known is None:
        yield word
    else:
        for value in values[known[1]]:
            yield from _evaluated(word[: known.start()] + value + word[known.end() :], values)


def _in_make(tree: SourceTree, file: str) -> Iterator[Listed]:
    """Find what a makefile compiles; `ANY` stands for what its text does not tell."""
    seen = set()
    folder = PurePosixPath(file).parent
    for name, line in makefile_of(tree, file).listed(_LEFT_OUT):
        if name not in seen and (ANY in name or _WORD.fullmatch(name)):
            seen.add(name)
            if folder != (other := PurePosixPath(line.file).parent):  # included from elsewhere
                name = os.path.relpath(folder / name, other)
            yield line.file, name, line.number
