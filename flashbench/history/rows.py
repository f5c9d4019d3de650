"""One asv result file as typed rows, fast: of a thousand files only the numbers are decoded.

Files come from strangers. They are decoded into the types below and nothing else.
"""

import json
import math
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from flashbench.errors import InvalidInputError
from flashbench.foreign import document
from flashbench.foreign.asv import VERSION

_MOST_FAILED = 100_000
Numbers = list[float | None]
Typed = TypeVar("Typed")
# All but samples and profiles, which are most of a file.
_COLUMNS: dict[str, Any] = {
    "result": Numbers,
    "params": list[list[str]],
    "version": str,
    "stats_ci_99_a": Numbers,
    "stats_ci_99_b": Numbers,
    "stats_q_25": Numbers,
    "stats_q_75": Numbers,
    "stats_repeat": Numbers,
}
_DECODERS = {name: msgspec.json.Decoder(type_ | None) for name, type_ in _COLUMNS.items()}
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, ValueError, RecursionError, OverflowError)


class Row(msgspec.Struct, kw_only=True, gc=False):
    """One benchmark: its numbers, one a combination of parameters (the last varies fastest).

    result None: it failed for every combination. A null in it: failed; NaN: skipped.
    """

    result: Numbers | None = None
    params: list[list[str]] | None = None
    version: str | None = None
    stats_ci_99_a: Numbers | None = None
    stats_ci_99_b: Numbers | None = None
    stats_q_25: Numbers | None = None
    stats_q_75: Numbers | None = None
    stats_repeat: Numbers | None = None

    @property
    def combinations(self) -> int:
        return math.prod(map(len, self.params or []))


class ResultFile(msgspec.Struct, kw_only=True):
    """One commit in one environment."""

    commit: str
    environment: str
    rows: dict[str, Row]


class _File(msgspec.Struct, kw_only=True):
    commit_hash: str
    result_columns: list[str]
    results: dict[str, list[msgspec.Raw]]
    env_name: str = ""
    version: int = 0


class _PlainFile(_File, kw_only=True):
    results: dict[str, list[Any]]


def read(path: Path) -> ResultFile:
    """Raises InvalidInputError saying what is wrong with the file."""
    content = document.content(path)
    try:
        return _raw(content, path)
    except UNREADABLE:
        pass  # asv writes NaN for what was skipped, which is no JSON; else it is told below
    try:
        return _plain(content, path)
    except UNREADABLE as error:
        reason = "nested too deep" if isinstance(error, RecursionError) else error
        raise InvalidInputError(f"{path}: damaged asv result file: {reason}") from None


def _raw(content: bytes, path: Path) -> ResultFile:
    file = msgspec.json.decode(content, type=_File)
    wanted = [_DECODERS.get(name) for name in file.result_columns]
    rows = {}
    for name, values in file.results.items():
        columns = zip(file.result_columns, wanted, values, strict=False)
        found = {key: decoder.decode(value) for key, decoder, value in columns if decoder}
        rows[name] = Row(**found)
        _checked(rows[name], name, path)
    return _result_file(file, rows, path)


def _plain(content: bytes, path: Path) -> ResultFile:
    file = msgspec.convert(json.loads(content.decode("utf-8-sig")), type=_PlainFile)
    found = {
        name: {
            column: value
            for column, value in zip(file.result_columns, values, strict=False)
            if column in _COLUMNS
        }
        for name, values in file.results.items()
    }
    rows = msgspec.convert(found, type=dict[str, Row])  # all at once: each call costs
    for name, row in rows.items():
        _checked(row, name, path)
    return _result_file(file, rows, path)


def _result_file(file: _File, rows: dict[str, Row], path: Path) -> ResultFile:
    if file.version != VERSION:
        raise InvalidInputError(
            f"{path}: asv result file of schema {file.version}, this reads {VERSION}; "
            "run `asv update`"
        )
    return ResultFile(commit=file.commit_hash, environment=file.env_name, rows=rows)


def _checked(row: Row, name: str, path: Path) -> None:
    count = row.combinations
    if row.result is None and count > _MOST_FAILED:  # all else has a number each, in the file
        raise InvalidInputError(f"{path}: damaged asv result file: {name!r}: {count} combinations")
    for column in (
        row.result,
        row.stats_ci_99_a,
        row.stats_ci_99_b,
        row.stats_q_25,
        row.stats_q_75,
        row.stats_repeat,
    ):
        if column is not None and len(column) != count:
            raise InvalidInputError(
                f"{path}: damaged asv result file: {name!r}: {len(column)} results of {count} "
                "combinations"
            )
