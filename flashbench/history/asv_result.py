"""Read asv result files as arrays; decoding only the numbers keeps a thousand files fast."""

import itertools
import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flashbench.arrays import BoolArray, FloatArray
from flashbench.damaged_files import UNREADABLE
from flashbench.history import names
from flashbench.other_tools import untrusted_json
from flashbench.other_tools.asv_file import AsvFile, Decoder, Params, Samples, damaged

# What a history needs of asv_row.WRITTEN_COLUMNS; `series._points` turns them into `model.Points`.
READ_COLUMNS = (
    "result",
    "stats_ci_99_a",
    "stats_ci_99_b",
    "stats_q_25",
    "stats_q_75",
    "stats_repeat",
    "stats_p_90",
    "stats_p_99",
)
BUILD = "<build"  # begins the names of durations of builds
_MOST_FAILED = 100_000


class ResultRow(NamedTuple):
    """A benchmark in a file: an `AsvRow` without its columns."""

    benchmark: str
    version: str
    params: Params

    @property
    def combinations(self) -> int:
        return math.prod(map(len, self.params))


class ResultFile(NamedTuple):
    """One commit in one environment.

    numbers: by READ_COLUMNS, (combinations of all rows, row after row), NaN where the file has
    none; None if it has none at all. failed: (combinations of all rows,), whether it was tried
    without a result; other NaN were skipped. samples: of each row, (combinations, launches) of
    names.SHOWN_RATIOS, else (0, 0). measuring_seconds, build_seconds: what it took, 0 if unknown.
    """

    commit: str
    environment: str
    rows: list[ResultRow]
    numbers: list[FloatArray | None]
    failed: BoolArray
    samples: list[NDArray[np.float32]]
    measuring_seconds: float = 0.0
    build_seconds: float = 0.0


class Reader:
    """Reads the files of a history, one after another."""

    def __init__(self) -> None:
        self._decoder = Decoder()

    def read(self, path: Path) -> ResultFile:
        """Read a file; InvalidInputError names the damage."""
        return self.decode(untrusted_json.content(path), path)

    def decode(self, content: bytes, path: Path) -> ResultFile:
        """`read` with the file's bytes at hand. path: its name in messages."""
        file = self._decoder.decode(content, path)
        try:
            return _arrays(file)
        except UNREADABLE as error:
            raise damaged(path, error) from None


def _arrays(file: AsvFile) -> ResultFile:
    rows: list[ResultRow] = []
    numbers: list[list[list[float | None] | None]] = []  # by row and column
    failed: list[bool] = []
    samples = []
    for row in file.rows:
        columns = row.columns(READ_COLUMNS)
        result = columns[0]
        count = row.combinations if result is None else len(result)
        if (
            result is None and count > _MOST_FAILED
        ):  # the other columns have one number per combination
            raise ValueError(f"{row.benchmark!r}: {count} combinations")
        numbers.append(columns)
        failed += [True] * count if result is None else [value is None for value in result]
        rows.append(ResultRow(row.benchmark, row.version, row.params))
        samples.append(_padded(row.samples() if row.benchmark in names.SHOWN_RATIOS else None))
    counts = [row.combinations for row in rows]
    found = [_joined([row[index] for row in numbers], counts) for index in range(len(READ_COLUMNS))]
    builds = sum((one for name, one in file.durations.items() if name.startswith(BUILD)), 0.0)
    measuring = sum(file.durations.values(), -builds)
    absent = np.array(failed, dtype=bool)
    return ResultFile(
        file.commit, file.environment, rows, found, absent, samples, measuring, builds
    )


def _joined(columns: list[list[float | None] | None], counts: list[int]) -> FloatArray | None:
    """A column of all rows; None without any number."""
    if all(one is None for one in columns):
        return None
    pairs = zip(columns, counts, strict=True)
    every = [one or [None] * count for one, count in pairs]
    joined = np.array([*itertools.chain.from_iterable(every)], dtype=np.float64)  # None becomes NaN
    return None if np.isnan(joined).all() else joined


def _padded(samples: Samples | None) -> NDArray[np.float32]:
    """Their ratios, NaN after the last and for what no ratio can be."""
    launches = [one or [] for one in samples or []]
    width = max(map(len, launches), default=0)
    padded = [one + [math.nan] * (width - len(one)) for one in launches]
    found = np.array(padded, np.float32).reshape(len(padded), width)
    found[~(found > 0) | np.isinf(found)] = np.nan
    return found
