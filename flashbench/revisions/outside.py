"""Detect code that a revision would borrow from the working tree: both would then run the same."""

import sys
from functools import cache
from pathlib import Path

import flashbench

_HARNESS = Path(flashbench.__file__).resolve().parent  # lies in the working tree of flashbench


@cache
def lies_in(tree: str, file: str) -> bool:
    """Whether a file is the working tree's own code, which excludes environments and hidden files
    such as caches. An empty tree contains nothing."""
    path = Path(file)
    if not tree or not path.is_absolute():
        return False
    path = path.resolve()
    root = Path(tree).resolve()
    if not path.is_relative_to(root) or path.is_relative_to(_HARNESS):
        return False
    environments = [Path(place).resolve() for place in (sys.prefix, sys.base_prefix)]
    if any(path.is_relative_to(place) for place in environments if place != root):
        return False
    parts = path.relative_to(root).parts
    return not any(part == "site-packages" or part.startswith(".") for part in parts)


def describe(tree: str, file: str) -> str:
    """Explain what is wrong with a file of the working tree, and the fix."""
    inside = Path(file).resolve().relative_to(Path(tree).resolve())
    top = inside.parts[0]
    named = f"{top}/ is" if len(inside.parts) > 1 else f"{top} is"
    package = len(inside.parts) > 1 and not (Path(tree) / top / "__init__.py").exists()
    fix = f"add {top}/__init__.py" if package else "take it into `path`"
    return (
        f"{inside} of the working tree, which is the same for every revision: {named} not part of "
        f"what is built; {fix}, or remove the working tree from Python's path"
    )
