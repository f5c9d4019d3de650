"""Units the build may compile: all that its files name, directly or by patterns and variables."""

import os
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import PurePosixPath

from flashbench.builds.content import UNITS
from flashbench.preflight.source.cmake import cmake_file, evaluated, is_cmake, path_of
from flashbench.preflight.source.listings import is_build
from flashbench.preflight.source.makefile import MAKEFILES, makefile_of
from flashbench.preflight.source.references import broken_files, missing_references
from flashbench.preflight.source.setup_script import ANY, NOT_PYTHON, STAR, script_of
from flashbench.preflight.source.tree import SourceTree, is_test

_END = "|".join(map(re.escape, UNITS))
_WORD = re.compile(rf"[^\s\"'(),;#=]*(?:{_END}|\*)(?![\w.-])")
_VARIABLE = re.compile(r"\$\{[^{}]*\}|\$\([^()]*\)|\$<[^<>]*>|\$\w|@\w+@|\*+|\?|%|\{[^{}]*\}")
_HERE = re.compile(r"\$\{CMAKE_CURRENT_(?:LIST|SOURCE)_DIR\}/")
# CMake commands that name units without compiling them.
_NOT_COMPILING = ("message", "install", "set_source_files_properties")
_NONE = re.compile(r"(?!)")
_REMOVES = ("REMOVE", "FILTER")
_FOLDER = "aux_source_directory"
_QUOTED_PATTERN = re.compile(rf"[\"']([^\"'\n]*[*{{}}%][^\"'\n]*(?:{_END}))[\"']")
_COMPILES = re.compile(r"nvcc|cpp_extension|Extension\(|\bg\+\+|\bgcc\b|clang|ninja|cmake")
_SCRIPTS = (".py", ".sh", ".bzl", ".toml", ".cfg", ".ninja", ".bazel", "BUILD")


@dataclass(eq=False)
class CompiledUnits:
    """Units named by a tree's build files. unknown: why they may compile more, "" if the list is
    whole."""

    tree: SourceTree
    words: dict[str, list[str]]  # by unit name
    patterns: list[tuple["re.Pattern[str]", str]]  # each with its place
    unknown: str

    @cached_property
    def units(self) -> frozenset[str]:
        """Units the build may compile."""
        return frozenset(unit for unit in self.tree.units if self.names(unit))

    @cached_property
    def files(self) -> frozenset[str]:
        """Units the build may compile, and the units those include."""
        return frozenset(one for one in self.tree.closure_of(self.units) if one.endswith(UNITS))

    @cached_property
    def _read(self) -> frozenset[str] | None:
        """Files that units include which something may compile; None if text does not tell."""
        read = self.tree.closure_of([one for one in self.tree.units if not self.leaves_out(one)])
        if self.unknown or not self.units or any(self.tree.read(one).computed for one in read):
            return None
        return frozenset(read)

    def may_read(self, file: str) -> bool:
        """Whether a compiler may read the unit or header."""
        return self._read is None or file in self._read

    def leaves_out(self, file: str) -> bool:
        """Whether no build file names the unit, nor any script that may compile."""
        if self.unknown or not self.units or file in self.files or not file.endswith(UNITS):
            return False
        name = PurePosixPath(file).name
        quoted = re.compile(rf"[\"'](?:[\w./{{}}-]*/)?{re.escape(name)}[\"']")  # not in prose
        for one, patterns in self._scripts:
            text = self.tree.read(one).text
            if name in text and (not one.endswith(".py") or quoted.search(text)):
                return False
            if any(_fits(found, file) for found in patterns):
                return False
        return True

    @cached_property
    def _scripts(self) -> list[tuple[str, list[str]]]:
        """Scripts beside the build files, with the patterns of units in those that may compile."""
        found = []
        for one in self.tree.build_files:
            if one.endswith(_SCRIPTS) and not is_build(one) and not is_test(one):
                text = self.tree.read(one).text
                patterns = _QUOTED_PATTERN.findall(text)
                found.append((one, patterns if patterns and _COMPILES.search(text) else []))
        return found

    def names(self, unit: str) -> bool:
        """Whether a build file names the unit, or a pattern there finds it."""
        words = self.words.get(PurePosixPath(unit).name, ())
        return any(unit == word or unit.endswith(f"/{word}") for word in words) or any(
            pattern.fullmatch(unit) for pattern, _ in self.patterns
        )

    def where(self, unit: str) -> str:
        """The place of the pattern that finds a unit, else the unit."""
        return next((at for pattern, at in self.patterns if pattern.fullmatch(unit)), unit)


@lru_cache(maxsize=1)
def build_of(tree: SourceTree) -> CompiledUnits:
    """Collect the units that setup.py, CMake, Meson and make compile."""
    words: dict[str, list[str]] = defaultdict(list)
    patterns = {}
    unknown = next((f"{one} is missing" for one in missing_references(tree)), "")
    unknown = unknown or next((f"{one} cannot be read" for one in broken_files(tree)), "")
    for file in tree.build_files:
        if not is_build(file):
            continue
        for text, line in dict.fromkeys(named_units(tree, file)):
            plain = text[1:] if text.startswith("/") else _plain(text)
            if plain is None:
                unknown = unknown or f"{file}:{line} computes what is compiled"
            elif ANY in plain or STAR in plain:
                start = "" if text.startswith("/") else "(?:.*/)?"
                place = f"{file}:{line}" if line else file
                patterns[text] = re.compile(start + _expression(plain)), place
            else:
                words[plain.rpartition("/")[2]].append(plain)
    return CompiledUnits(tree, words, list(patterns.values()), unknown)


def named_units(tree: SourceTree, file: str) -> Iterator[tuple[str, int]]:
    """Yield unit names and patterns with their lines: `ANY` where text does not tell, a leading "/"
    for a path from the root."""
    if file.endswith(".py"):
        try:
            sources = script_of(tree, file).sources()
        except NOT_PYTHON:
            yield ANY, 1
            return
        yield from ((one.text, one.line) for one in sources)
        return
    make = makefile_of(tree, file) if file.rpartition("/")[2] in MAKEFILES else None
    names = list(make.listed(_NONE)) if make else []
    whole = make is not None and make.is_whole() and not any(ANY in one for one, _ in names)
    yield from ((name, line.number) for name, line in names if whole)
    for words, line in _words(tree, file):
        for match in _WORD.finditer(words):
            if whole and "%" in match[0]:
                continue  # a pattern makes what its objects name
            word, start = match[0], _HERE.match(match[0])
            below = path_of(tree, file, word[: start.end()]) if start else None
            if start and below:  # written from the root, as its folder is known
                word = f"/{os.path.normpath(f'{below}/{word[start.end() :]}')}"
            word = _VARIABLE.sub(ANY, word)
            if word.endswith(UNITS):
                yield word, 0
        if words == _FOLDER:
            yield ANY, line


def _words(tree: SourceTree, file: str) -> Iterator[tuple[str, int]]:
    """Texts of a build file that may name units, each with its line."""
    if not is_cmake(file):
        for number, line in enumerate(tree.read(file).text.splitlines(), 1):
            yield line.partition("#")[0], number
        return
    for command in cmake_file(tree, file).commands:
        removes = command.name == "list" and command.texts[:1] and command.texts[0][:6] in _REMOVES
        if command.name == _FOLDER:
            yield command.name, command.line
        elif command.name not in _NOT_COMPILING and not removes:
            for word, at in command.words:
                yield from ((one, at) for one in evaluated(tree, word, command.loops))


def _plain(text: str) -> str | None:
    """Strip leading folders that are unknown or the project's own; None if it may be any unit."""
    parts = [part for part in text.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    while len(parts) > 1 and parts[0] == ANY:
        parts.pop(0)
    if not parts or not parts[-1].strip(ANY + STAR):
        # A whole folder counts as a pattern if the folder has a name.
        return "/".join(parts) if any(part.strip(ANY + STAR) for part in parts) else None
    return "/".join(parts)


def _expression(plain: str) -> str:
    """Turn a pattern into a regular expression; unknown folders may be absent."""
    parts = re.escape(plain).replace(re.escape(f"/{ANY}/"), "/(?:.*/)?")
    return parts.replace(re.escape(ANY), ".*").replace(re.escape(STAR), "[^/]*")


def _fits(pattern: str, file: str) -> bool:
    plain = _plain(_VARIABLE.sub(ANY, pattern))
    return plain is None or re.fullmatch(f"(?:.*/)?{_expression(plain)}", file) is not None
