"""`[tool.flashbench.project]` can be used: its callable, path, sources and build command exist."""

import shutil
import tomllib
from collections.abc import Iterator
from typing import Any

from flashbench.damage import UNREADABLE, damage
from flashbench.preflight.finding import CannotCheck, Finding
from flashbench.preflight.source.tree import SourceTree

_TABLE = "[tool.flashbench.project]"


def project_settings(tree: SourceTree) -> Iterator[Finding]:
    """What the table names and the tree lacks. Its syntax is told as the other commands tell it."""
    file = tree.root / "pyproject.toml"
    if not file.is_file():
        raise CannotCheck(f"no pyproject.toml in {tree.root}")
    try:
        document: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, *UNREADABLE) as error:
        yield Finding("pyproject.toml", f"cannot be read: {damage(error)}", "mend it")
        return
    table = document
    for key in ("tool", "flashbench", "project"):
        table = table.get(key, {}) if isinstance(table, dict) else {}
    if not table or not isinstance(table, dict):
        raise CannotCheck(f"no {_TABLE}")
    yield from _paths(tree, table)
    yield from _callable(tree, table)
    build = table.get("build")
    if isinstance(build, list) and build and isinstance(build[0], str):
        program = build[0]
        here = (tree.root / program).exists()
        if program not in ("python", "python3") and not here and shutil.which(program) is None:
            yield Finding(
                f"pyproject.toml {_TABLE} build",
                f"{program} is not on PATH",
                f"install {program}, or put its folder on PATH",
            )


def _paths(tree: SourceTree, table: dict[str, Any]) -> Iterator[Finding]:
    sources = table.get("sources", [])
    for name in sources if isinstance(sources, list) else []:
        if isinstance(name, str) and not (tree.root / name).exists():
            yield Finding(
                f"pyproject.toml {_TABLE} sources",
                f"{name} does not exist",
                f"remove it, or name the folder that decides the build: git ls-files | grep {name}",
            )


def _callable(tree: SourceTree, table: dict[str, Any]) -> Iterator[Finding]:
    """Modules in Python only: what the build makes is not there yet."""
    call, path = table.get("callable"), table.get("path", ".")
    if not isinstance(call, str) or ":" not in call or not isinstance(path, str):
        return
    module = call.partition(":")[0].replace(".", "/")
    root = tree.root / path
    top = module.partition("/")[0]
    if not (root / top).is_dir() or any(
        (root / f"{module}{end}").exists() for end in (".py", "/__init__.py")
    ):
        return
    if not list((root / module).parent.glob(f"{module.rpartition('/')[2]}.*")) and not table.get(
        "build"
    ):
        yield Finding(
            f"pyproject.toml {_TABLE} callable",
            f"{call}: no module {module}.py below {path}",
            f"git ls-files '*{module.rpartition('/')[2]}.py'  # and write the module that has it",
        )
