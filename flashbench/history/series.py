"""Collect the rows of many result files by asv's keys and turn them into series."""

import itertools
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from flashbench import operations
from flashbench.arrays import BoolArray, FloatArray, IntArray
from flashbench.history import asv_result, names
from flashbench.history.model import Points, Series
from flashbench.other_tools.asv_file import Params
from flashbench.other_tools.asv_folder import Benchmark
from flashbench.other_tools.benchmarks import SECONDS, find_case
from flashbench.run_validation import MAX_SECONDS, MIN_SECONDS

_FEW = 2**16  # combinations, whose numbers are sorted in linear time
_OTHERS = ("ci_99_a", "ci_99_b", "q_25", "q_75", "p_90", "p_99")
_FEWEST_FOR_INTERVAL = 8  # with fewer samples, asv's interval assumes a distribution


class SeriesKey(NamedTuple):
    """The fields by which asv separates series."""

    machine: str
    environment: str
    benchmark: str
    version: str


class Collected:
    """The rows of one key: the combinations seen, and each row's commit and numbers."""

    def __init__(self) -> None:
        self.combinations: dict[tuple[str, ...], int] = {}
        self.commits: list[int] = []
        self.places: list[IntArray] = []  # by row, the combinations of its numbers
        # By row and asv_result.READ_COLUMNS: (combinations,), or None without any number.
        self.numbers: list[list[FloatArray | None]] = []
        self.failed: list[BoolArray] = []
        self.samples: list[NDArray[np.float32]] = []  # of each row, as in asv_result.ResultFile
        self._known: tuple[Params, IntArray] | None = None

    def add(
        self,
        commit: int,
        params: Params,
        numbers: list[FloatArray | None],
        failed: BoolArray,
        samples: NDArray[np.float32],
    ) -> None:
        self.commits.append(commit)
        self.places.append(self._places(params))
        self.numbers.append(numbers)
        self.failed.append(failed)
        self.samples.append(samples)

    def sort(self) -> None:
        """Sort rows by commit, stably."""
        order = np.argsort(self.commits, kind="stable").tolist()
        every: tuple[list[Any], ...] = (self.commits, self.places, self.numbers)
        for rows_ in (*every, self.failed, self.samples):
            rows_[:] = [rows_[index] for index in order]

    def column(self, name: str, space: FloatArray) -> FloatArray | None:
        """One of asv_result.READ_COLUMNS over all rows, in `space`; None if no row has it."""
        index = asv_result.READ_COLUMNS.index(name)
        found = [numbers[index] for numbers in self.numbers]
        if all(one is None for one in found):
            return None
        every = [
            np.broadcast_to(np.nan, len(places)) if one is None else one
            for one, places in zip(found, self.places, strict=True)
        ]
        return np.concatenate(every, out=space)

    def order(self) -> tuple[IntArray, IntArray]:
        """The numbers of all rows by combination, then row; where each combination ends in that
        order, after a 0."""
        count, rows, same = len(self.combinations), len(self.places), self.places[0]
        if len(same) == count and all(one is same for one in self.places):
            # All rows have all combinations, in the same order.
            return np.add.outer(same, count * np.arange(rows)).ravel(), np.arange(count + 1) * rows
        kind = np.uint16 if count <= _FEW else np.int64  # few are sorted in linear time
        places = np.concatenate(self.places, dtype=kind, casting="unsafe")
        ends = np.cumsum([0, *np.bincount(places, minlength=count)])
        return np.argsort(places, kind="stable"), ends

    def all_samples(self) -> NDArray[np.float32]:
        """The samples of all rows, (combinations, launches); (0, 0) without any."""
        width = max(one.shape[1] for one in self.samples)
        sizes = [len(places) for places in self.places]
        found = np.full((sum(sizes) if width else 0, width), np.nan, np.float32)
        for end, size, one in zip(itertools.accumulate(sizes), sizes, self.samples, strict=True):
            if one.size:
                found[end - size : end, : one.shape[1]] = one
        return found

    def _places(self, params: Params) -> IntArray:
        if self._known is None or self._known[0] != params:
            found = self.combinations
            places = [found.setdefault(values, len(found)) for values in itertools.product(*params)]
            self._known = params, np.array(places, dtype=np.int64)
        return self._known[1]


def series_of(key: SeriesKey, collected: Collected, described: Benchmark | None) -> list[Series]:
    """One series per combination. described: the benchmark's entry in benchmarks.json."""
    ours = names.OURS.get(key.benchmark)
    unit = described.unit if described else ""
    titles = described.param_names if described else []
    collected.sort()
    commit = np.repeat(collected.commits, [len(places) for places in collected.places])
    # By combination, then commit; of two files of one commit, the later counts.
    order, ends = collected.order()
    if len(set(collected.commits)) < len(collected.commits):
        again = np.zeros(len(order), dtype=bool)
        again[:-1] = commit[order][1:] == commit[order][:-1]
        again[ends[1:] - 1] = False
        order, ends = _kept(order, ends, ~again)
    failed, failed_ends = _kept(order, ends, np.concatenate(collected.failed)[order])
    failed_commit = commit[failed]
    points, point_ends = _points(collected, commit, order, ends, unit, of_launches=ours is not None)
    made = []
    for parameter_values, place in collected.combinations.items():
        texts = tuple(value.strip("'\"") for value in parameter_values)
        parameters = itertools.zip_longest(titles[: len(texts)], texts, fillvalue="")
        case = next(filter(None, map(_case_of_ours if ours else find_case, texts)), "")
        others = [text for text in texts if not case or case not in text]
        made.append(
            Series(
                machine=key.machine,
                environment=key.environment,
                benchmark=key.benchmark,
                parameters=tuple(parameters),
                unit=unit,
                points=points[point_ends[place] : point_ends[place + 1]],
                metric=ours.metric if ours else "",
                case=case,
                candidate=", ".join(others) if case else "",
                failed=failed_commit[failed_ends[place] : failed_ends[place + 1]],
            )
        )
    return made


def _case_of_ours(text: str) -> str:
    """A parameter of our benchmarks that is a case of any operation."""
    return find_case(text) or (text if operations.read_case(text) else "")


def _kept(order: IntArray, ends: IntArray, kept: BoolArray) -> tuple[IntArray, IntArray]:
    """The order and the ends of each combination in it, of those that are kept."""
    if kept.all():
        return order, ends
    places = np.flatnonzero(kept)
    return order[places], np.searchsorted(places, ends)


def _points(
    collected: Collected,
    commit: IntArray,
    order: IntArray,
    ends: IntArray,
    unit: str,
    *,
    of_launches: bool,
) -> tuple[Points, IntArray]:
    """The points of all combinations, and the ends of each. commit: of each number; overwritten.

    Memory is used again where that is possible: new memory takes longer than the work in it.
    """
    space = np.empty(len(commit))

    def column(name: str) -> FloatArray:
        found = collected.column(name, space)
        # Without memory for each number if all are missing.
        return np.broadcast_to(np.nan, len(order)) if found is None else found[order]

    value = column("result")
    possible = _possible(value, unit)
    if not possible.all():
        order, ends = _kept(order, ends, possible)
        value = value[possible]
    commits = commit[order]
    low, high, q25, q75, p90, p99 = (column(f"stats_{name}") for name in _OTHERS)
    repeat = collected.column("stats_repeat", space)
    enough = np.zeros(len(order), dtype=np.bool_)
    launches = np.zeros(len(order), dtype=np.int64)
    if repeat is not None:
        with np.errstate(invalid="ignore"):
            enough = (repeat >= _FEWEST_FOR_INTERVAL)[order]
        if of_launches:
            np.nan_to_num(repeat, copy=False, posinf=0)
            np.copyto(commit, repeat.clip(0, 2**53, out=repeat), casting="unsafe")
            launches = commit[order]
    with np.errstate(invalid="ignore"):
        bounded = np.isfinite(low) & np.isfinite(high) & (low <= value) & (value <= high)
        bounded &= enough & (low > 0)
    if not bounded.all():
        low, high = np.where(bounded, low, np.nan), np.where(bounded, high, np.nan)
    samples = collected.all_samples()
    if samples.size:
        samples = samples[order]
    return Points(commits, value, low, high, q25, q75, launches, p90, p99, samples), ends


def _possible(value: FloatArray, unit: str) -> BoolArray:
    with np.errstate(invalid="ignore"):
        possible = (value >= 1e-300) & (value <= 1e300)
        if unit == SECONDS:
            possible &= (value >= MIN_SECONDS) & (value <= MAX_SECONDS)
    return possible
