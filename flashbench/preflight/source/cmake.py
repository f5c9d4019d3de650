"""CMake files as commands: what their variables, targets and paths mean, without running CMake."""

import os
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath

from flashbench.preflight.source.removed import is_or_was, removed_files
from flashbench.preflight.source.tree import SourceTree

_TOKEN = re.compile(
    r"#\[(?P<comment>=*)\[.*?\](?P=comment)\]|#[^\n]*|\[(?P<raw>=*)\[.*?\](?P=raw)\]"
    r"|\"(?:\\.|[^\"\\])*\"|(?P<sign>[()\"])"
    r"|(?:\\.|\$\(\w+\)|[^\s()#\"\\])(?:\\.|\$\(\w+\)|\"(?:\\.|[^\"\\])*\"|[^\s()#\"\\])*",
    re.DOTALL,
)
_SCOPES = ("function", "macro")
_BLOCKS = ("if", "foreach", "while", "block", *_SCOPES)
_REFERENCE = re.compile(r"\$\{(\w+)\}")
_CURRENT = re.compile(r"\$\{CMAKE_CURRENT_SOURCE_DIR\}(?:/|\Z)")
_OWN = re.compile(r"\$\{CMAKE_CURRENT_LIST_DIR\}(?:/|\Z)")
_TOP = re.compile(r"\$\{(?:CMAKE_SOURCE_DIR|PROJECT_SOURCE_DIR)\}(?:/|\Z)")
_MODULES = {"pybind11_add_module", "nanobind_add_module", "python_add_library"}
Loops = tuple[tuple[str, tuple[str, ...]], ...]
_NOT_LOADED = {"OBJECT", "STATIC", "INTERFACE", "ALIAS"}


@dataclass(frozen=True, slots=True)
class CMakeCommand:
    """`name(words)`, the name in lower case, the words without quotes, each with its line.
    conditional: in a block that may not run. loops: variables of the loops around it, each with its
    texts."""

    name: str
    line: int
    words: tuple[tuple[str, int], ...]
    conditional: bool
    loops: Loops = ()

    @property
    def texts(self) -> list[str]:
        return [text for text, _ in self.words]


@dataclass(frozen=True, slots=True)
class CMakeFile:
    """Commands of a file. broken: the line, and why CMake cannot parse it."""

    commands: tuple[CMakeCommand, ...]
    broken: tuple[int, str] | None


@dataclass(frozen=True, slots=True)
class Target:
    """A library. name: of its file, "" if the text does not tell; module: whether a call makes it
    that makes modules for Python."""

    name: str
    line: int
    module: bool


def is_cmake(file: str) -> bool:
    return file.endswith(("CMakeLists.txt", ".cmake"))


@lru_cache(maxsize=4096)
def cmake_file(tree: SourceTree, file: str) -> CMakeFile:
    """Parse a file once for all checks; what follows an unclosed command counts, too."""
    commands, opened = list[CMakeCommand](), list[tuple[str, int, tuple[str, ...]]]()
    broken: tuple[int, str] | None = None
    tokens = list(_tokens(tree.read(file).text))
    at = 0
    while at < len(tokens):
        (name, line, quoted), at = tokens[at], at + 1
        if name in ('"', ")") and not quoted:
            why = "a quote is not closed" if name == '"' else ") closes nothing"
            broken = broken or (line, why)
        if quoted or not re.fullmatch(r"\w+", name) or tokens[at : at + 1] == []:
            continue
        if tokens[at][0] != "(" or tokens[at][2]:
            continue
        end = _end(tokens, at)
        if end < 0:
            broken = broken or (line, f"the ( of {name} is not closed")
            end = at
        begun, at = at + 1, end + 1
        inside = any(one in _SCOPES for one, _, _ in opened)
        words = [
            (_of_caller(text) if inside else text, on)
            for text, on, known in tokens[begun:end]
            if known or text not in "()"
        ]
        if ('"', False) in ((text, known) for text, _, known in tokens[begun:end]):
            broken = broken or (line, f"a quote in {name} is not closed")
        kind = name.lower()
        block = kind.removeprefix("end")
        if kind in _BLOCKS:
            opened.append((kind, line, tuple(text for text, _ in words)))
        elif block != kind and block in _BLOCKS:
            if not opened or opened[-1][0] != block:
                open_now = f"{opened[-1][0]} of line {opened[-1][1]}" if opened else "nothing"
                broken = broken or (line, f"{kind} ends {open_now}")
            else:
                opened.pop()
        conditional = any(one != "while" for one, _, _ in opened)
        loops = tuple((of[0], of[1:]) for one, _, of in opened if one == "foreach" and of)
        commands.append(CMakeCommand(kind, line, tuple(words), conditional, loops))
    if opened and broken is None:
        broken = opened[-1][1], f"{opened[-1][0]} has no end{opened[-1][0]}"
    return CMakeFile(tuple(commands), broken)


def _of_caller(word: str) -> str:
    """A word of a function's body: there CMAKE_CURRENT_LIST_DIR is the caller's folder, and the
    definer's has a name of its own."""
    word = word.replace("${CMAKE_CURRENT_LIST_DIR}", "${CMAKE_CURRENT_SOURCE_DIR}")
    return word.replace("${CMAKE_CURRENT_FUNCTION_LIST_DIR}", "${CMAKE_CURRENT_LIST_DIR}")


def _tokens(text: str) -> Iterator[tuple[str, int, bool]]:
    """Words and brackets, each with its line, and whether quotes hold it."""
    line, last = 1, 0
    for match in _TOKEN.finditer(text):
        line += text.count("\n", last, match.start())
        last, word = match.start(), match[0]
        if word.startswith("#"):
            continue
        if match["raw"] is not None:
            skip = len(match["raw"]) + 2
            yield word[skip:-skip], line, True
        elif len(word) > 1 and word[0] == '"':
            yield word[1:-1], line, True
        else:
            yield word if len(word) == 1 else word.replace('"', ""), line, False


def _end(tokens: list[tuple[str, int, bool]], opened: int) -> int:
    """Where the bracket closes that opens at a place; -1 if it does not."""
    depth = 0
    for at in range(opened, len(tokens)):
        text, _, quoted = tokens[at]
        depth += 0 if quoted else (text == "(") - (text == ")")
        if depth == 0:
            return at
    return -1


@lru_cache(maxsize=1)
def values_of(tree: SourceTree) -> dict[str, list[str]]:
    """Texts of the variables that are the same wherever they are set."""
    given: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for file in filter(is_cmake, tree.build_files):
        for command in cmake_file(tree, file).commands:
            name, *words = command.texts or [""]
            if command.name == "set" and len(words) == 1:
                given[name].add(tuple(" ".join(words).split()))
    values = {name: next(iter(texts)) for name, texts in given.items() if len(texts) == 1}
    return {name: list(words) for name, words in values.items() if "$" not in "".join(words)}


def evaluated(tree: SourceTree, word: str, loops: Loops) -> Iterator[str]:
    """The word with each text of its variables, and of those of the loops around it, that have
    some."""
    values = values_of(tree)
    for name, texts in loops:
        listed = texts[:1] not in (("IN",), ("RANGE",)) and "$" not in "".join(texts)
        values = {**values, name: [one for text in texts for one in text.split(";")]}
        if not listed:
            del values[name]
    known = next((one for one in _REFERENCE.finditer(word) if one[1] in values), None)
    if known is None:
        yield word
    else:
        for value in values[known[1]]:
            changed = word[: known.start()] + value + word[known.end() :]
            yield from evaluated(tree, changed, loops)


@lru_cache(maxsize=1)
def _bases(tree: SourceTree) -> dict[str, PurePosixPath]:
    """The folder of the CMakeLists.txt that includes each .cmake file."""
    found: dict[str, PurePosixPath] = {}
    todo = [(one, PurePosixPath(one).parent) for one in tree.build_files if is_lists(one)]
    while todo:
        file, base = todo.pop(0)
        if found.setdefault(file, base) != base:
            continue
        for command in cmake_file(tree, file).commands:
            named = included(tree, file, command, base)
            if named and named not in found and (tree.root / named).is_file():
                todo.append((named, base))
    return found


def is_lists(file: str) -> bool:
    return file.rpartition("/")[2] == "CMakeLists.txt"


def base_of(tree: SourceTree, file: str) -> PurePosixPath:
    """The folder that names in a build file are relative to."""
    here = PurePosixPath(file).parent
    return _bases(tree).get(file, here) if file.endswith(".cmake") else here


def included(
    tree: SourceTree, file: str, command: CMakeCommand, base: PurePosixPath | None = None
) -> str | None:
    """The file that an `include` reads; None for CMake's own, and for one that text does not
    tell."""
    if command.name != "include" or not command.words or "OPTIONAL" in command.texts:
        return None
    word = command.texts[0]
    if not word.endswith(".cmake") and "/" not in word:
        return _module(tree, word)
    return path_of(tree, file, word, base)


def path_of(
    tree: SourceTree, file: str, word: str, base: PurePosixPath | None = None
) -> str | None:
    """A path relative to the root; None if it holds another variable, or lies outside."""
    here = PurePosixPath(file).parent
    base = base or base_of(tree, file)
    if own := _OWN.match(word):
        path = here / word[own.end() :]
    elif current := _CURRENT.match(word):
        path = base / word[current.end() :]
    elif top := _TOP.match(word):
        tops = (one for one in here.parents if is_or_was(tree, str(one / "CMakeLists.txt")))
        path = min([here, *tops], key=lambda one: len(one.parts)) / word[top.end() :]
    else:
        path = base / word
    named = os.path.normpath(path)
    return None if re.search(r"[$@]", named) or named.startswith(("..", "/")) else named


def _module(tree: SourceTree, name: str) -> str | None:
    """The project's own module of this name; None for one of CMake's."""
    end = f"/{name}.cmake"
    known = [*tree.ending(f"{name}.cmake"), *tree.ignored, *removed_files(tree)]
    return next((file for file in known if f"/{file}".endswith(end)), None)


@lru_cache(maxsize=4096)
def targets(tree: SourceTree, file: str) -> tuple[Target, ...]:
    """Libraries that a file makes, without those that nothing loads."""
    commands = [one for one in cmake_file(tree, file).commands if one.words]
    renamed, found = dict[str, str](), list[Target]()
    for one in commands:
        if "OUTPUT_NAME" not in one.texts[:-1]:
            continue
        names = one.texts[: one.texts.index("PROPERTIES")] if "PROPERTIES" in one.texts else []
        renamed |= dict.fromkeys(names, one.texts[one.texts.index("OUTPUT_NAME") + 1])
        if not names:
            found.append(Target("", one.line, module=False))
    for one in commands:
        module = re.sub(r"python\d", "python", one.name) in _MODULES
        loaded = one.name == "add_library" and not set(one.texts[1:2]) <= _NOT_LOADED
        if module or loaded:
            name = renamed.get(one.texts[0], one.texts[0])
            found.append(Target("" if "$" in name else name, one.line, module))
    return tuple(found)
