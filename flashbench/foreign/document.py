"""Foreign JSON into types: bounded in size, depth and digits, told in one line when damaged."""

import json
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from flashbench.errors import InvalidInputError

# Python's JSON objects take some twenty times the bytes of the text; public asv histories keep a
# commit in a few MB.
MAX_BYTES = 2**27
_HEAD = 4096

Typed = TypeVar("Typed")


def head(path: Path) -> bytes:
    """The first bytes of a file."""
    with path.open("rb") as file:
        return file.read(_HEAD)


def content(path: Path) -> bytes:
    """The bytes of a file; InvalidInputError for what cannot be read or is too large."""
    try:
        with path.open("rb") as file:
            found = file.read(MAX_BYTES + 1)  # of a device, never more
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot be read: {error.strerror}") from None
    if len(found) > MAX_BYTES:
        raise InvalidInputError(
            f"{path}: too large for another tool's result file (limit {MAX_BYTES} bytes)"
        )
    return found


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
    except (msgspec.ValidationError, RecursionError) as error:
        raise InvalidInputError(f"{where}: {error}") from None
