"""One asv result file as arrays, fast: of a thousand files only the numbers are decoded.

Files are untrusted input, decoded into the types below and nothing else. Read are version
2 of asv's format, and version 1, numbered or not.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from flashbench.damage import UNREADABLE, damage
from flashbench.errors import InvalidInputError
from flashbench.other_tools import document
from flashbench.other_tools.asv import VERSION

FloatArray = NDArray[np.float64]
COLUMNS = (
    "result",
    "stats_ci_99_a",
    "stats_ci_99_b",
    "stats_q_25",
    "stats_q_75",
    "stats_repeat",
    "stats_p_90",
    "stats_p_99",
)
_MOST_FAILED = 100_000
_FIRST_VERSION = 1
Numbers = list[float | None]
Params = list[list[str]]
Typed = TypeVar("Typed")
_NUMBERS = msgspec.json.Decoder(Numbers | None)
_TEXT = msgspec.json.Decoder(str | None)
_PARAMS = msgspec.json.Decoder(Params | None)


class Row(NamedTuple):
    """A benchmark in a file. params: the values of each parameter; there is one number a
    combination of them (the last varies fastest)."""

    benchmark: str
    version: str
    params: Params

    @property
    def combinations(self) -> int:
        return math.prod(map(len, self.params))


class ResultFile(NamedTuple):
    """One commit in one environment.

    numbers: (len(COLUMNS), combinations of all rows, one row after another); NaN where the file has
    none. failed: (combinations of all rows,), those that were tried and have no result; a NaN that
    has not failed was skipped.
    """

    commit: str
    environment: str
    rows: list[Row]
    numbers: FloatArray
    failed: NDArray[np.bool_]


class _File(msgspec.Struct, kw_only=True):
    commit_hash: str
    result_columns: list[str]
    results: dict[str, list[msgspec.Raw]]
    env_name: str = ""
    version: int = 0


_FILE = msgspec.json.Decoder(_File)


class _PlainFile(_File, kw_only=True):
    results: dict[str, list[Any]]


class _PlainRow(msgspec.Struct, kw_only=True):
    """A benchmark of a file that is no strict JSON."""

    version: str | None = None
    params: Params | None = None
    result: Numbers | None = None
    stats_ci_99_a: Numbers | None = None
    stats_ci_99_b: Numbers | None = None
    stats_q_25: Numbers | None = None
    stats_q_75: Numbers | None = None
    stats_repeat: Numbers | None = None
    stats_p_90: Numbers | None = None
    stats_p_99: Numbers | None = None


class _Stats(msgspec.Struct, kw_only=True):
    """What version 1 keeps of the samples of a combination."""

    ci_99: tuple[float | None, float | None] = (None, None)
    q_25: float | None = None
    q_75: float | None = None
    repeat: float | None = None


class _OldRow(msgspec.Struct, kw_only=True):
    result: Numbers | float | None = None
    params: Params = []
    stats: list[_Stats | None] | _Stats | None = None


class _OldFile(msgspec.Struct, kw_only=True):
    """Version 1; of a benchmark without parameters a number can stand alone."""

    commit_hash: str
    results: dict[str, _OldRow | float | None]
    env_name: str = ""
    benchmark_version: dict[str, str | None] = {}


class _Version(msgspec.Struct):
    version: int = _FIRST_VERSION  # before the format had numbers


class Reader:
    """Reads one file after another. Files of a history share their parameters, which are decoded
    once while they stay the same."""

    def __init__(self) -> None:
        self._params: dict[str, tuple[bytes, Params]] = {}

    def read(self, path: Path) -> ResultFile:
        """Raises InvalidInputError saying what is wrong with the file."""
        return self.decode(document.content(path), path)

    def decode(self, content: bytes, path: Path) -> ResultFile:
        """`read` of a file whose bytes are known; path: what it is called when it is damaged."""
        try:
            return self._raw(content)
        except UNREADABLE:
            pass  # asv writes NaN for what was skipped, which is no JSON; else it is told below
        try:
            return _plain(content)
        except InvalidInputError as error:
            raise InvalidInputError(f"{path}: {error}") from None
        except UNREADABLE as error:
            raise InvalidInputError(f"{path}: damaged asv result file: {damage(error)}") from None

    def _raw(self, content: bytes) -> ResultFile:
        file = _FILE.decode(content)
        if file.version != VERSION:
            raise ValueError("another version")
        made = _Made()
        for name, values in file.results.items():
            row = dict(zip(file.result_columns, values, strict=False))
            made.add(
                Row(
                    name, _decoded(_TEXT, row.get("version")) or "", self._decoded_params(name, row)
                ),
                [_decoded(_NUMBERS, row.get(column)) for column in COLUMNS],
            )
        return made.file(file.commit_hash, file.env_name)

    def _decoded_params(self, name: str, row: dict[str, msgspec.Raw]) -> Params:
        raw = bytes(row.get("params", b"null"))
        known = self._params.get(name)
        if known is None or known[0] != raw:
            known = self._params[name] = (raw, _PARAMS.decode(raw) or [])
        return known[1]


class _Made:
    """A result file that grows by rows."""

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._columns: list[list[float | None]] = [[] for _ in COLUMNS]
        self._failed: list[bool] = []

    def add(self, row: Row, columns: Sequence[Numbers | None]) -> None:
        """columns: of COLUMNS, None where the file has none; without a result all have failed."""
        count = row.combinations
        if count != 1 and columns[0] == [None]:  # asv's word for all of them
            columns = [None] * len(COLUMNS)
        result = columns[0]
        if result is None and count > _MOST_FAILED:  # all else has a number each, in the file
            raise ValueError(f"{row.benchmark!r}: {count} combinations")
        for numbers, column in zip(self._columns, columns, strict=True):
            if column is None:
                numbers += [None] * count
            elif len(column) == count:
                numbers += column
            else:
                raise ValueError(
                    f"{row.benchmark!r}: {len(column)} results of {count} combinations"
                )
        self._failed += [True] * count if result is None else [value is None for value in result]
        self._rows.append(row)

    def file(self, commit: str, environment: str) -> ResultFile:
        numbers = np.array(self._columns, dtype=np.float64)  # None becomes NaN
        return ResultFile(
            commit, environment, self._rows, numbers, np.array(self._failed, dtype=bool)
        )


def _decoded(decoder: msgspec.json.Decoder[Typed], raw: msgspec.Raw | None) -> Typed | None:
    return None if raw is None else decoder.decode(raw)


def _plain(content: bytes) -> ResultFile:
    """With NaN, and of any version."""
    value = json.loads(content.decode("utf-8-sig"))
    version = msgspec.convert(value, type=_Version).version
    if version == _FIRST_VERSION:
        return _first(msgspec.convert(value, type=_OldFile))
    if version != VERSION:
        raise InvalidInputError(
            f"asv result file of schema {version}, this reads {_FIRST_VERSION} and {VERSION}; "
            "install a newer flashbench"
        )
    file = msgspec.convert(value, type=_PlainFile)
    named = {
        name: dict(zip(file.result_columns, values, strict=False))
        for name, values in file.results.items()
    }
    made = _Made()
    # All at once: each call costs.
    for name, row in msgspec.convert(named, type=dict[str, _PlainRow]).items():
        columns = [getattr(row, column) for column in COLUMNS]
        made.add(Row(name, row.version or "", row.params or []), columns)
    return made.file(file.commit_hash, file.env_name)


def _first(file: _OldFile) -> ResultFile:
    """Version 1, whose statistics are an object a combination."""
    made = _Made()
    for name, value in file.results.items():
        row = value if isinstance(value, _OldRow) else _OldRow(result=value)
        result = row.result if isinstance(row.result, list) else [row.result]
        stats = row.stats if isinstance(row.stats, list) else [row.stats]
        known = [one or _Stats() for one in stats]
        if row.stats is None:
            known = []
        made.add(
            Row(name, file.benchmark_version.get(name) or "", row.params),
            [
                result,
                [one.ci_99[0] for one in known] or None,
                [one.ci_99[1] for one in known] or None,
                [one.q_25 for one in known] or None,
                [one.q_75 for one in known] or None,
                [one.repeat for one in known] or None,
                None,
                None,
            ],
        )
    return made.file(file.commit_hash, file.env_name)
