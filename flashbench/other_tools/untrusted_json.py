"""Decode untrusted JSON into types, with limits on size, depth and digits and one-line errors."""

import json
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from flashbench.damaged_files import UNREADABLE, damage
from flashbench.errors import InvalidInputError
from flashbench.inputs import open_input, read_input

# Python's JSON objects take about twenty times the bytes of the text; a commit in public asv
# histories takes a few MB.
MAX_BYTES = 2**27
_HEAD = 4096

Typed = TypeVar("Typed")


def head(path: Path) -> bytes:
    """The first bytes of a file. Raises OSError."""
    with open_input(path) as file:
        return file.read(_HEAD)


def content(path: Path) -> bytes:
    """The bytes of a file; InvalidInputError if it cannot be read or is too large."""
    return read_input(path, MAX_BYTES, "another tool's result file")


def parse(path: Path) -> Any:
    """The JSON value of a file, accepting NaN and Infinity (asv writes them).

    Raises InvalidInputError if it cannot be read or is too large, ValueError if it is not JSON.
    """
    try:
        # json, because msgspec's decoder rejects NaN; `typed` still checks the result.
        return json.loads(content(path).decode("utf-8-sig"))
    except RecursionError:
        raise ValueError("nested too deep") from None


def typed(value: Any, type_: type[Typed], where: str) -> Typed:
    """Convert `value` to `type_`. where: names file and tool in the InvalidInputError."""
    try:
        return msgspec.convert(value, type=type_)
    except UNREADABLE as error:
        raise InvalidInputError(f"{where}: {damage(error)}") from None
