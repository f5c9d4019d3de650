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

    def column(self, index: int, order: IntArray, space: FloatArray) -> FloatArray:
        """One of asv_result.READ_COLUMNS over all rows, in this order. space: of that many numbers;
        new memory takes longer."""
        found = [numbers[index] for numbers in self.numbers]
        if all(one is None for one in found):  # without memory for each number
            return np.broadcast_to(np.nan, len(order))
        every = [
            np.broadcast_to(np.nan, len(places)) if one is None else one
            for one, places in zip(found, self.places, strict=True)
        ]
        return np.concatenate(every, out=space)[order]

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
    sizes = [len(places) for places in collected.places]
    combination = np.concatenate(collected.places)
    if len(collected.combinations) <= _FEW:
        combination = combination.astype(np.uint16)
    commit = np.repeat(np.array(collected.commits, dtype=np.int64), sizes)
    # By combination, then commit; of two files of one commit, the later counts.
    order = np.argsort(combination, kind="stable")
    if len(set(collected.commits)) < len(collected.commits):
        again = np.zeros(len(order), dtype=bool)
        same = combination[order][1:] == combination[order][:-1]
        again[:-1] = same & (commit[order][1:] == commit[order][:-1])
        order = order[~again]
    failed = order[np.concatenate(collected.failed)[order]]
    space = np.empty(len(commit))
    values = collected.column(0, order, space)
    possible = _possible(values, unit)
    if not possible.all():
        order, values = order[possible], values[possible]
    columns = [values]
    for index in range(1, len(asv_result.READ_COLUMNS)):
        columns.append(collected.column(index, order, space))
    samples = collected.all_samples()
    points = _points(
        commit[order], columns, samples[order] if samples.size else samples, ours is not None
    )
    every = len(collected.combinations)
    point_ends = _ends(combination[order], every)
    failed_ends = _ends(combination[failed], every)
    failed_commit = commit[failed]
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


def _ends(combination: NDArray[np.integer], every: int) -> list[int]:
    """Where the numbers of each combination begin and end. combination: of each, sorted."""
    ends: list[int] = np.cumsum([0, *np.bincount(combination, minlength=every)]).tolist()
    return ends


def _possible(value: FloatArray, unit: str) -> BoolArray:
    with np.errstate(invalid="ignore"):
        possible = (value >= 1e-300) & (value <= 1e300)
        if unit == SECONDS:
            possible &= (value >= MIN_SECONDS) & (value <= MAX_SECONDS)
    return possible


def _points(
    commit: IntArray,
    columns: list[FloatArray],
    samples: NDArray[np.float32],
    of_launches: bool,
) -> Points:
    value, low, high, q25, q75, repeat, p90, p99 = columns
    with np.errstate(invalid="ignore"):
        bounded = np.isfinite(low) & np.isfinite(high) & (low <= value) & (value <= high)
        bounded &= (repeat >= _FEWEST_FOR_INTERVAL) & (low > 0)
    if not bounded.all():
        low, high = np.where(bounded, low, np.nan), np.where(bounded, high, np.nan)
    launches = np.zeros(len(commit), dtype=np.int64)
    if of_launches:
        known = np.isfinite(repeat)
        np.copyto(launches, repeat.clip(0, 2**53), where=known, casting="unsafe")
    return Points(
        commit,
        value,
        low,
        high,
        q25,
        q75,
        launches,
        p90,
        p99,
        samples,
    )
