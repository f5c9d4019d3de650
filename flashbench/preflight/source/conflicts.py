"""Marks of a merge that nobody finished, in sources and build files."""

import re
from collections.abc import Iterator

from flashbench.preflight.finding import Finding
from flashbench.preflight.source.listings import is_build
from flashbench.preflight.source.tree import SourceTree

_BEGINS, _MIDDLE, _ENDS = "<<<<<<< ", "=======", ">>>>>>> "


def merge_conflict(tree: SourceTree) -> Iterator[Finding]:
    """Find the first conflict of each file."""
    built = (file for file in tree.build_files if is_build(file) or file.endswith(".toml"))
    for file in (*tree.units, *tree.headers, *built):
        if line := conflict_line(tree, file):
            yield Finding(
                f"{file}:{line}", "has the marks of a merge conflict", f"git mergetool -- {file}"
            )


def conflict_line(tree: SourceTree, file: str) -> int:
    """The line where a conflict begins, of which all three marks are there; 0 without one."""
    text = tree.read(file).text
    if _BEGINS not in text or _ENDS not in text:
        return 0
    begun, middle = 0, False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(_BEGINS):
            begun, middle = number, False
        elif begun and re.fullmatch(rf"{_MIDDLE}\s*", line):
            middle = True
        elif middle and line.startswith(_ENDS):
            return begun
    return 0
