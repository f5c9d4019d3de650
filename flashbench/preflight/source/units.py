"""The files that a build names: all there, their submodules fetched."""

import ast
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from flashbench.preflight.finding import CannotCheck, Finding
from flashbench.preflight.source.cxx import UNITS
from flashbench.preflight.source.tree import SourceTree

_WORD = re.compile(rf"[\w./+${{}}-]+(?:{'|'.join(map(re.escape, UNITS))})(?![\w.])")
_HERE = re.compile(
    r"\$\{?(CMAKE_CURRENT_SOURCE_DIR|CMAKE_CURRENT_LIST_DIR|PROJECT_SOURCE_DIR|"
    r"CMAKE_SOURCE_DIR|srcdir|SRCDIR)\}?/"
)


def listed_but_missing(tree: SourceTree) -> Iterator[Finding]:
    """A unit that setup.py, CMake or make names, and that is not there or not in git."""
    for file, name, line in _listed(tree):
        found = _resolve(tree, file, name)
        where = f"{file}:{line}"
        if not found:
            kin = _renamed(tree, file, name)
            yield Finding(
                where,
                f"lists {name}: no such file" + (f", though {kin} is there" if kin else ""),
                f"git log --all --oneline -- '*{PurePosixPath(name).name}'",
                "warning" if kin else "error",  # hipify and the like rename before they compile
            )
        elif tree.tracked is not None and not any(one in tree.tracked for one in found):
            yield Finding(
                where,
                f"lists {found[0]}, which is on this machine alone: git does not track it",
                f"git add -f {found[0]}",
            )


def listed_units(tree: SourceTree) -> frozenset[str]:
    """The units that the build names one by one; none where it takes what it finds (a glob)."""
    for file in tree.build_files:
        if _is_build(file) and re.search(
            r"\bglob\b|GLOB|\*\.(cpp|cu|cc|c)\b|wildcard", tree.read(file).text
        ):
            return frozenset()
    found = {one for file, name, _ in _listed(tree) for one in _resolve(tree, file, name)}
    return frozenset(found)


def submodule_not_fetched(tree: SourceTree) -> Iterator[Finding]:
    """A submodule whose folder is empty."""
    if tree.tracked is None:
        raise CannotCheck(f"git cannot say what it has: {tree.without_git}")
    for name, fetched in sorted(tree.modules.items()):
        if not fetched:
            yield Finding(
                name,
                "is a submodule that was not fetched",
                f"git submodule update --init --recursive -- {name}",
                "warning",  # many are for tests or other targets; a build that needs it says so
            )


def _is_build(file: str) -> bool:
    name = PurePosixPath(file).name
    return name in ("setup.py", "CMakeLists.txt", "meson.build") or name.lower().endswith(
        ("makefile", ".cmake")
    )


def _listed(tree: SourceTree) -> Iterator[tuple[str, str, int]]:
    """Build file, unit as it is written there, line."""
    for file in tree.build_files:
        if not _is_build(file):
            continue
        text = tree.read(file).text
        words = _in_python(text) if file.endswith(".py") else _in_lines(text)
        for name, line in words:
            plain = _HERE.sub("", name)
            if "$" not in plain and not plain.startswith(("/", "-")):
                yield file, plain, line


def _in_python(text: str) -> Iterator[tuple[str, int]]:
    """Literals that stand in a list of names, as `sources=[...]` does. A name that is joined from
    parts is known only when setup.py runs."""
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(module):
        if isinstance(node, ast.List | ast.Tuple):
            for entry in node.elts:
                value = entry.value if isinstance(entry, ast.Constant) else None
                if isinstance(value, str) and _WORD.fullmatch(value):
                    yield value, entry.lineno


def _in_lines(text: str) -> Iterator[tuple[str, int]]:
    for number, line in enumerate(text.splitlines(), 1):
        code = line.partition("#")[0]
        if re.search(r"OUTPUT|configure_file|REGEX|MATCHES|foreach|%", code):
            continue
        for match in _WORD.finditer(code):
            yield match[0], number


def _renamed(tree: SourceTree, file: str, name: str) -> str:
    """A unit of the same path with another ending; "" if there is none."""
    stem = PurePosixPath(name).with_suffix("")
    found = [one for end in UNITS for one in _resolve(tree, file, f"{stem}{end}")]
    return found[0] if found else ""


def _resolve(tree: SourceTree, file: str, name: str) -> list[str]:
    """The files that a name in a build file may mean: a path from there, or from the root."""
    parent = PurePosixPath(file).parent
    exact = [one for one in tree.ending(name) if one in (name, (parent / name).as_posix())]
    return exact or tree.ending(name)
