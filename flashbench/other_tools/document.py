"""Foreign JSON into types: bounded in size, depth and digits, told in one line when damaged."""

import json
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from flashbench.damage import UNREADABLE, damage
from flashbench.errors import InvalidInputError
from flashbench.inputs import open_input, read_input

# Python's JSON objects take some twenty times the bytes of the text; public asv histories keep a
# commit in a few MB.
MAX_BYTES = 2**27
_HEAD = 4096

Typed = TypeVar("Typed")


def head(path: Path) -> bytes:
    """The first bytes of a file. Raises OSError."""
    with open_input(path) as file:
        return file.read(_HEAD)


def content(path: Path) -> bytes:
    """The bytes of a file; InvalidInputError for what cannot be read or is too large."""
    return read_input(path, MAX_BYTES, "another tool's result file")


def parse(path: Path) -> Any:
    """The JSON value of a file, NaN and Infinity taken as what they say (asv writes them).

    Raises InvalidInputError for what cannot be read or is too large, ValueError for no JSON.
    """
    try:
        # json, as msgspec's decoder takes no NaN; what comes out goes through types all the same.
        return json.loads(content(path).decode("utf-8-sig"))
    except RecursionError:
        raise ValueError("nested too deep") from None


def typed(value: Any, type_: type[Typed], where: str) -> Typed:
    """`value` as `type_`; InvalidInputError starts with `where`, which names file and tool."""
    try:
        return msgspec.convert(value, type=type_)
    except UNREADABLE as error:
        raise InvalidInputError(f"{where}: {damage(error)}") from None
