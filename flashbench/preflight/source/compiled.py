"""Units the build may compile: all that its files name, directly or by patterns and variables."""

import os
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import PurePosixPath

from flashbench.preflight.source.cxx import UNITS
from flashbench.preflight.source.lines import line_of
from flashbench.preflight.source.listings import is_build
from flashbench.preflight.source.references import missing_references
from flashbench.preflight.source.setup_script import ANY, UNREADABLE, script_of
from flashbench.preflight.source.tree import SourceTree, is_test

_END = "|".join(map(re.escape, UNITS))
_WORD = re.compile(rf"[^\s\"'(),;#=]*(?:{_END}|\*)(?![\w.-])")
_VARIABLE = re.compile(r"\$\{[^{}]*\}|\$\([^()]*\)|\$<[^<>]*>|\$\w|@\w+@|\*+|\?|%|\{[^{}]*\}")
_LIST_DIR = re.compile(r"\$\{CMAKE_CURRENT_LIST_DIR\}/")
_HERE = re.compile(r"\$\{CMAKE_CURRENT_(?:LIST|SOURCE)_DIR\}/")
_COMMENT = re.compile(r"(?m)#\[(=*)\[[\s\S]*?\]\1\]|#[^\n]*")
# CMake commands that name units without compiling them.
_NOT_COMPILING = re.compile(
    r"\b(?:message|install|set_source_files_properties|list\s*\(\s*(?:REMOVE\w*|FILTER))\b[^()]*\)"
)
_FOLDER = re.compile(r"\b(?:aux_source_directory|subdir_glob)\b")
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
        others = (
            one
            for one in self.tree.build_files
            if one.endswith(_SCRIPTS) and not is_build(one) and not is_test(one)
        )
        quoted = re.compile(rf"[\"'](?:[\w./{{}}-]*/)?{re.escape(name)}[\"']")  # not in prose
        for one in others:
            text = self.tree.read(one).text
            if name in text and (not one.endswith(".py") or quoted.search(text)):
                return False
            if _COMPILES.search(text) and any(
                _fits(found, file) for found in _QUOTED_PATTERN.findall(text)
            ):
                return False
        return True

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
    for file in tree.build_files:
        if not is_build(file):
            continue
        for text, line in dict.fromkeys(_named(tree, file)):
            plain = text[1:] if text.startswith("/") else _plain(text)
            if plain is None:
                unknown = unknown or f"{file}:{line} computes what is compiled"
            elif ANY in plain:
                start = "" if text.startswith("/") else "(?:.*/)?"
                place = f"{file}:{line}" if line else file
                patterns[text] = re.compile(start + _expression(plain)), place
            else:
                words[plain.rpartition("/")[2]].append(plain)
    return CompiledUnits(tree, words, list(patterns.values()), unknown)


def _named(tree: SourceTree, file: str) -> Iterator[tuple[str, int]]:
    """Yield unit names and patterns with their lines: `ANY` where text does not tell, a leading "/"
    for a path from the root."""
    text = tree.read(file).text
    if file.endswith(".py"):
        try:
            sources = script_of(tree, file).sources()
        except UNREADABLE:
            yield ANY, 1
            return
        yield from ((one.text, one.line) for one in sources)
        return
    text = _NOT_COMPILING.sub("", _COMMENT.sub("", text))
    if found := _FOLDER.search(text):
        yield ANY, line_of(text, found.start())
    here = _HERE if file.endswith("CMakeLists.txt") else _LIST_DIR
    for match in _WORD.finditer(text):
        word = match[0]
        if (start := here.match(word)) is not None:  # written from the root, as its folder is known
            below = PurePosixPath(file).parent / word[start.end() :]
            word = f"/{os.path.normpath(below)}"
        word = _VARIABLE.sub(ANY, word)
        if word.endswith(UNITS):
            yield word, 0


def _plain(text: str) -> str | None:
    """Strip leading folders that are unknown or the project's own; None if it may be any unit."""
    parts = [part for part in text.replace("\\", "/").split("/") if part not in ("", ".", "..")]
    while len(parts) > 1 and parts[0] == ANY:
        parts.pop(0)
    if not parts or not parts[-1].replace(ANY, ""):
        # A whole folder counts as a pattern if the folder has a name.
        return "/".join(parts) if any(part.replace(ANY, "") for part in parts) else None
    return "/".join(parts)


def _expression(plain: str) -> str:
    """Turn a pattern into a regular expression; unknown folders may be absent."""
    parts = re.escape(plain).replace(re.escape(f"/{ANY}/"), "/(?:.*/)?")
    return parts.replace(re.escape(ANY), ".*")


def _fits(pattern: str, file: str) -> bool:
    plain = _plain(_VARIABLE.sub(ANY, pattern))
    return plain is None or re.fullmatch(f"(?:.*/)?{_expression(plain)}", file) is not None
