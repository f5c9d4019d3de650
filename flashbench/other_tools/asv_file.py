"""Decode asv's result files, results/MACHINE/COMMIT-ENVIRONMENT.json: the only reader of them.

Reads versions 1 (numbered or not) and 2 of the format. Files are untrusted: they are decoded into
the types below and nothing else. Of strict JSON only the requested columns are decoded; asv writes
NaN for skipped benchmarks, and such a file is decoded whole.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from flashbench.damaged_files import UNREADABLE, damage
from flashbench.errors import InvalidInputError
from flashbench.other_tools import untrusted_json

ASV_VERSION = 2
_FIRST_VERSION = 1  # also of files without a version
_Numbers = list[float | None]
Params = list[list[str]]
Samples = list[list[float] | None]
_NUMBERS = msgspec.json.Decoder(_Numbers | None)
_SAMPLES = msgspec.json.Decoder(Samples | None)
_TEXT = msgspec.json.Decoder(str | None)
_SECONDS = msgspec.json.Decoder(float | None)
_PARAMS = msgspec.json.Decoder(Params | None)


class _Columns(msgspec.Struct, kw_only=True):
    """The columns of a benchmark in a file that is not strict JSON."""

    version: str | None = None
    params: Params | None = None
    result: _Numbers | None = None
    stats_ci_99_a: _Numbers | None = None
    stats_ci_99_b: _Numbers | None = None
    stats_q_25: _Numbers | None = None
    stats_q_75: _Numbers | None = None
    stats_number: _Numbers | None = None
    stats_repeat: _Numbers | None = None
    stats_p_90: _Numbers | None = None
    stats_p_99: _Numbers | None = None
    samples: Any = None  # many: converted on request
    duration: float | None = None


class AsvRow(msgspec.Struct):
    """A benchmark in a file.

    version: "" if the file has none. params: the values of each parameter, as reprs. A column has
    one number per combination of them; the last parameter varies fastest.
    """

    benchmark: str
    version: str
    params: Params
    _columns: dict[str, msgspec.Raw] | _Columns

    @property
    def combinations(self) -> int:
        return math.prod(map(len, self.params))

    def columns(self, names: Sequence[str]) -> list[_Numbers | None]:
        """The named columns, the first of which is "result"; None for a column that the file lacks.
        All are None if no combination has a result: asv then writes a single null. Raises
        ValueError if a column does not fit the parameters."""
        kept, count = self._columns, self.combinations
        if isinstance(kept, _Columns):
            found = [getattr(kept, name) for name in names]
        else:
            found = [_NUMBERS.decode(kept[name]) if name in kept else None for name in names]
        if count != 1 and found[0] == [None]:
            return [None] * len(names)
        for column in found:
            if column is not None and len(column) != count:
                raise self._misfit(column)
        return found

    def samples(self) -> Samples | None:
        """The samples of each combination; None if asv kept none. Raises ValueError as
        `columns`."""
        kept = self._columns
        if isinstance(kept, _Columns):
            found = msgspec.convert(kept.samples, type=Samples | None)
        else:
            found = _SAMPLES.decode(kept["samples"]) if "samples" in kept else None
        if found is not None and len(found) != self.combinations:
            raise self._misfit(found)
        return found

    def _misfit(self, column: Sequence[object]) -> ValueError:
        return ValueError(
            f"{self.benchmark!r}: {len(column)} results for {self.combinations} combinations"
        )


class AsvFile(msgspec.Struct):
    """The results of one commit in one environment. version: of the format. durations: seconds, of
    benchmarks and, in <brackets>, of all else, such as <build>."""

    version: int
    commit: str
    environment: str
    rows: list[AsvRow]
    durations: dict[str, float] = {}


class _File(msgspec.Struct, kw_only=True):
    commit_hash: str
    result_columns: list[str]
    results: dict[str, list[msgspec.Raw]]
    env_name: str = ""
    version: int = 0
    durations: dict[str, float | None] = {}


_FILE = msgspec.json.Decoder(_File)


class _PlainFile(_File, kw_only=True):
    results: dict[str, list[Any]]


class _Stats(msgspec.Struct, kw_only=True):
    """Version 1's statistics of a combination's samples."""

    ci_99: tuple[float | None, float | None] = (None, None)
    q_25: float | None = None
    q_75: float | None = None
    repeat: float | None = None


class _OldRow(msgspec.Struct, kw_only=True):
    result: _Numbers | float | None = None
    params: Params = []
    stats: list[_Stats | None] | _Stats | None = None


class _OldFile(msgspec.Struct, kw_only=True):
    """Version 1, where a benchmark without parameters may be a bare number."""

    commit_hash: str
    results: dict[str, _OldRow | float | None]
    env_name: str = ""
    benchmark_version: dict[str, str | None] = {}


class _Version(msgspec.Struct):
    version: int = _FIRST_VERSION


class Decoder:
    """Decodes the files of a history in turn, and their shared parameters only when they change."""

    def __init__(self) -> None:
        self._params: dict[str, tuple[bytes, Params]] = {}

    def decode(self, content: bytes, path: Path) -> AsvFile:
        """Decode a file's bytes. path: its name in the message of an InvalidInputError."""
        try:
            return self._strict(content)
        except UNREADABLE:
            pass  # another version or not strict JSON; damage is reported below
        try:
            value = json.loads(content.decode("utf-8-sig"))
        except UNREADABLE as error:
            raise damaged(path, error) from None
        return of_json(value, path)

    def _strict(self, content: bytes) -> AsvFile:
        file = _FILE.decode(content)
        if file.version != ASV_VERSION:
            raise ValueError("another version")
        rows, durations = [], file.durations
        for name, values in file.results.items():
            kept = dict(zip(file.result_columns, values, strict=False))
            durations[name] = _SECONDS.decode(kept.get("duration", b"null"))
            version = _TEXT.decode(kept["version"]) if "version" in kept else None
            rows.append(AsvRow(name, version or "", self._decoded_params(name, kept), kept))
        return AsvFile(ASV_VERSION, file.commit_hash, file.env_name, rows, _finite(durations))

    def _decoded_params(self, name: str, kept: dict[str, msgspec.Raw]) -> Params:
        raw = bytes(kept.get("params", b"null"))
        known = self._params.get(name)
        if known is None or known[0] != raw:
            known = self._params[name] = (raw, _PARAMS.decode(raw) or [])
        return known[1]


def of_json(value: object, path: Path) -> AsvFile:
    """`Decoder.decode` of a parsed JSON value."""
    try:
        version = msgspec.convert(value, type=_Version).version
        if version == _FIRST_VERSION:
            return _first(msgspec.convert(value, type=_OldFile))
        if version == ASV_VERSION:
            return _plain(msgspec.convert(value, type=_PlainFile), path)
    except UNREADABLE as error:
        raise damaged(path, error) from None
    raise InvalidInputError(
        f"{path}: asv result file of schema {version}, this reads {_FIRST_VERSION} and "
        f"{ASV_VERSION}; install a newer flashbench"
    )


def damaged(path: Path, error: Exception) -> InvalidInputError:
    """The error to raise when decoding raised one of UNREADABLE."""
    return InvalidInputError(f"{path}: damaged asv result file: {damage(error)}")


def _plain(file: _PlainFile, path: Path) -> AsvFile:
    named = {
        name: dict(zip(file.result_columns, values, strict=False))
        for name, values in file.results.items()
    }
    try:
        known = msgspec.convert(named, type=dict[str, _Columns])  # all at once, to save calls
    except UNREADABLE:
        for name, row in named.items():  # again one by one, to name the damaged one
            untrusted_json.typed(row, _Columns, f"{path}: damaged asv result file: {name!r}")
        raise
    rows = [AsvRow(name, row.version or "", row.params or [], row) for name, row in known.items()]
    durations = file.durations | {name: row.duration for name, row in known.items()}
    return AsvFile(ASV_VERSION, file.commit_hash, file.env_name, rows, _finite(durations))


def _finite(durations: dict[str, float | None]) -> dict[str, float]:
    """The values that are known and finite."""
    return {name: one for name, one in durations.items() if one and 0 < one < math.inf}


def _first(file: _OldFile) -> AsvFile:
    """Convert version 1, which has one object of statistics per combination."""
    rows = []
    for name, value in file.results.items():
        old = value if isinstance(value, _OldRow) else _OldRow(result=value)
        stats = old.stats if isinstance(old.stats, list) else [old.stats]
        known = [] if old.stats is None else [one or _Stats() for one in stats]
        columns = _Columns(
            result=old.result if isinstance(old.result, list) else [old.result],
            stats_ci_99_a=[one.ci_99[0] for one in known] or None,
            stats_ci_99_b=[one.ci_99[1] for one in known] or None,
            stats_q_25=[one.q_25 for one in known] or None,
            stats_q_75=[one.q_75 for one in known] or None,
            stats_repeat=[one.repeat for one in known] or None,
        )
        rows.append(AsvRow(name, file.benchmark_version.get(name) or "", old.params, columns))
    return AsvFile(_FIRST_VERSION, file.commit_hash, file.env_name, rows)
