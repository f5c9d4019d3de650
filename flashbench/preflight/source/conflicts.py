"""Unresolved merge conflicts in sources and build files."""

import re
import shlex
from collections.abc import Iterator

from flashbench.preflight.finding import Finding
from flashbench.preflight.fixes import edit
from flashbench.preflight.source.listings import is_build
from flashbench.preflight.source.references import called_modules
from flashbench.preflight.source.tree import SourceTree
from flashbench.revisions import git

_BEGINS, _MIDDLE, _ENDS = "<<<<<<< ", "=======", ">>>>>>> "


def merge_conflict(tree: SourceTree) -> Iterator[Finding]:
    """Find the first conflict of each file."""
    built = (file for file in tree.build_files if is_build(file) or file.endswith(".toml"))
    files = dict.fromkeys((*tree.units, *tree.headers, *built, *called_modules(tree)))
    for file in files:
        if line := conflict_line(tree, file):
            fix = f"git mergetool -- {shlex.quote(file)}"
            if not _is_unmerged(tree, file):  # the merge is over, and its tool has nothing to do
                fix = edit(f"{file}:{line}", "keep one side, without the marks")
            yield Finding(f"{file}:{line}", "has the marks of a merge conflict", fix)


def _is_unmerged(tree: SourceTree, file: str) -> bool:
    """Whether git still knows both sides of a file."""
    try:
        return bool(git.listed(tree.root, "ls-files", "-z", "--unmerged", "--", file))
    except git.GitError:
        return False


def conflict_line(tree: SourceTree, file: str) -> int:
    """The line where a conflict with all three marks begins; 0 without one."""
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
