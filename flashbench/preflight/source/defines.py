"""Macros that build files define: the same value wherever a unit sees them, and no constant's name.

Only literal definitions count, outside of conditions, of names that the sources use.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from flashbench.preflight.finding import CannotCheck, Finding, in_short
from flashbench.preflight.fixes import edit, replace
from flashbench.preflight.source.cmake import cmake_file, is_cmake
from flashbench.preflight.source.compiled import build_of
from flashbench.preflight.source.constants import constants_of
from flashbench.preflight.source.lines import line_of
from flashbench.preflight.source.listings import is_build, listed
from flashbench.preflight.source.setup_script import is_optional
from flashbench.preflight.source.tree import SourceTree, is_test
from flashbench.preflight.source.units import resolve

_FLAG = re.compile(r"(?<![\w-])-D\s?([A-Za-z_]\w*)(?:=([\w.+-]+))?(?=[\s\"',;)\]]|\Z)")
_PAIR = re.compile(r"\(\s*[\"'](\w+)[\"']\s*,\s*[\"']?([\w.+-]+|None)[\"']?\s*\)")
_OF_CMAKE = ("target_compile_definitions", "add_compile_definitions")
_WORD = re.compile(r"([A-Za-z_]\w*)=([\w.+-]+)")
_BLOCK = re.compile(r"[ \t]*(end)?if")  # of make and Meson


@dataclass(frozen=True, slots=True)
class BuildDefine:
    """`-DNAME=VALUE` in a build file; "1" without a value."""

    file: str
    line: int
    name: str
    value: str


def macros_of_the_build(tree: SourceTree) -> Iterator[Finding | CannotCheck]:
    """Find `-D` definitions that rewrite a constant, or contradict each other."""
    yield from _rewritten(tree)
    yield from _contradicting(tree)


def _rewritten(tree: SourceTree) -> Iterator[Finding]:
    """Find a `-DWARP_SIZE=32` whose name a compiled file declares as a constant."""
    defines = {one.name: one for one in _defines(tree)}
    files = build_of(tree).files if defines else ()
    for file in sorted(tree.closure_of(files)):
        for name, line in constants_of(tree, file, set(defines)).items():
            if name not in tree.read(file).asked_for:
                one = defines[name]
                found = f"-D{name}={one.value} rewrites the constant {name} of {file}:{line}"
                fix = edit(f"{one.file}:{one.line}", f"remove -D{name}: {file} has the constant")
                yield Finding(f"{one.file}:{one.line}", found, fix)


def _contradicting(tree: SourceTree) -> Iterator[Finding | CannotCheck]:
    """Find a macro that two build files of the same unit define by different values. One file with
    several values compiles variants."""
    named: dict[str, dict[str, list[BuildDefine]]] = defaultdict(lambda: defaultdict(list))
    for one in _defines(tree):
        named[one.name][one.file].append(one)
    doubts = list[str]()
    for name, files in named.items():
        values = {file: {one.value for one in found} for file, found in files.items()}
        if len(set.union(*values.values())) < 2 or any(len(one) > 1 for one in values.values()):
            continue
        (first, *_), (other, *_) = sorted(files.values(), key=lambda found: found[0].file)[:2]
        places = f"{other.file}:{other.line}", f"{first.file}:{first.line}"
        found = f"defines {name}={other.value}, and {places[1]} defines {name}={first.value}"
        both = _units(tree)[first.file] & _units(tree)[other.file]
        if any(_uses(tree, unit, name) for unit in both):
            old, new = (f"{name}={one.value}" for one in (other, first))
            fix = replace(tree.read(other.file).text, places[0], old, new)
            yield Finding(places[0], found, fix, "warning")
        else:
            doubts.append(f"{places[0]} {found}: for different units")
    yield from in_short(doubts)


@lru_cache(maxsize=1)
def _defines(tree: SourceTree) -> tuple[BuildDefine, ...]:
    """Definitions in build files of names that units or headers use."""
    found = []
    for file in tree.build_files:
        if is_build(file) and not is_test(file):
            for match, line in _unconditional(tree, file):
                found.append(BuildDefine(file, line, match[1], match[2] or "1"))
    names = {one.name for one in found}
    used = {name for name in names if any(_has(tree, file, name) for file in _sources(tree))}
    return tuple(one for one in found if one.name in used)


def _unconditional(tree: SourceTree, file: str) -> Iterator[tuple[re.Match[str], int]]:
    """Definitions of a build file outside of conditions, each with its line."""
    if is_cmake(file):
        for command in cmake_file(tree, file).commands:
            for word, line in () if command.conditional else command.words:
                yield from ((match, line) for match in _FLAG.finditer(word))
                if command.name in _OF_CMAKE and (whole := _WORD.fullmatch(word)):
                    yield whole, line
        return
    text = "\n".join(line.partition("#")[0] for line in tree.read(file).text.splitlines())
    matches, script = [*_FLAG.finditer(text)], file.endswith(".py")
    if script and (begun := text.find("define_macros")) >= 0:
        matches += _PAIR.finditer(text, begun)
    depths = [0]
    for one in text.splitlines():
        block = _BLOCK.match(one)
        depths.append(depths[-1] + (0 if block is None else -1 if block[1] else 1))
    for match in matches:
        line = line_of(text, match.start())
        if not (is_optional(text, line) if script else depths[line] > 0):
            yield match, line


@lru_cache(maxsize=1)
def _units(tree: SourceTree) -> dict[str, set[str]]:
    """The units that each build file lists."""
    units: dict[str, set[str]] = defaultdict(set)
    for file, name, _ in listed(tree):
        units[file].update(resolve(tree, file, name))
    return units


def _sources(tree: SourceTree) -> tuple[str, ...]:
    return (*tree.units, *tree.headers)


def _has(tree: SourceTree, file: str, name: str) -> bool:
    code = tree.read(file).code
    return name in code and re.search(rf"\b{name}\b", code) is not None


def _uses(tree: SourceTree, unit: str, name: str) -> bool:
    return any(_has(tree, file, name) for file in tree.closure(unit))
