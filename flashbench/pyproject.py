"""pyproject.toml: the nearest one, its text and its tables. It needs Python alone."""

import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flashbench.damaged_files import UNREADABLE, damage
from flashbench.errors import InvalidInputError
from flashbench.inputs import read_input

_MOST_BYTES = 16 << 20


def up_to_repository(start: Path) -> Iterator[Path]:
    """`start` and the directories above it, up to the root of a git repository: anything beyond
    belongs to another project."""
    for directory in (start, *start.parents):
        yield directory
        if os.path.lexists(directory / ".git"):
            return


def find_pyproject(start: Path) -> Path | None:
    """The pyproject.toml of `start` or of the nearest directory above it in the same repository."""
    for directory in up_to_repository(start):
        if os.path.lexists(directory / "pyproject.toml"):  # report a broken link too
            return directory / "pyproject.toml"
    return None


def read_pyproject(path: Path) -> dict[str, Any]:
    """The whole document; InvalidInputError says why it cannot be read."""
    try:
        return tomllib.loads(read_input(path, _MOST_BYTES, "settings").decode("utf-8"))
    except UNREADABLE as error:
        raise InvalidInputError(f"{path}: cannot be read: {damage(error)}") from None


def table_of(path: Path, document: dict[str, Any], name: str) -> dict[str, Any]:
    """`[tool.flashbench.name]`, {} if missing; InvalidInputError if it is not a table."""
    table = document
    for key in ("tool", "flashbench", name):
        table = table.get(key, {})
        if not isinstance(table, dict):
            raise InvalidInputError(f"{path}: [tool.flashbench.{name}] must be a table")
    return table
