"""Macros that build files define, as literals and outside of conditions, against constants."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from flashbench.preflight.finding import Finding
from flashbench.preflight.fixes import edit
from flashbench.preflight.source.cmake import cmake_file, is_cmake
from flashbench.preflight.source.compiled_units import build_of
from flashbench.preflight.source.constants import constants_of
from flashbench.preflight.source.lines import line_of
from flashbench.preflight.source.listings import is_build
from flashbench.preflight.source.setup_script import is_optional
from flashbench.preflight.source.tree import SourceTree, is_test

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


def macros_of_the_build(tree: SourceTree) -> Iterator[Finding]:
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


def _defines(tree: SourceTree) -> Iterator[BuildDefine]:
    for file in tree.build_files:
        if is_build(file) and not is_test(file):
            for match, line in _unconditional(tree, file):
                yield BuildDefine(file, line, match[1], match[2] or "1")


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
