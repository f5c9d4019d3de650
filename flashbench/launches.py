"""Reduce each launch of a run file to numbers, as arrays for the statistics.

The samples of one process resemble each other more than those of the next process, so a launch
counts once: it is reduced to one number per candidate and case (the median of its samples), and for
a pair of candidates to one log-ratio (the median over all pairs of samples of one block, which
cancels drift during the launch).
"""

import math
from array import array
from collections import defaultdict
from collections.abc import MutableSequence
from dataclasses import dataclass, field

import numpy as np

from flashbench.arrays import FloatArray, IntArray
from flashbench.baseline_names import is_default
from flashbench.errors import InvalidInputError
from flashbench.metric import metric_of
from flashbench.run_validation import MAX_COUNT
from flashbench.runfile import Candidate, Result, RunFile, Timing

_THROTTLED = (
    "throttled"  # not a result's status: the result is correct, but its times were not kept
)
_MAX_CELLS = 50_000_000  # 400 MB of float64: a larger file is damaged or hostile
_MOST_OF_A_BLOCK = 16  # samples: the pairs of more take long, and what they add is little
_PAIRS_AT_ONCE = 1 << 19  # 4 MB of float64, for the caches


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a candidate has no time for a case: a status of the run file, or "missing".

    launches: how many failed so; status and reason are those of the first.
    """

    status: str
    reason: str
    launches: int = 0


@dataclass(frozen=True, slots=True)
class _Layout:
    """Timings with the same layout of samples in blocks: log seconds, (timings, samples) of each
    block."""

    blocks: IntArray
    logs: list[FloatArray]


@dataclass(frozen=True, slots=True)
class LaunchData:
    """The timed samples of one metric of a run file, by candidate, case and launch.

    log_median: (candidates, cases, launches), log seconds; NaN where nothing was measured, and in
    every launch for a candidate that was wrong on the case in any: it has no speed.
    """

    run: RunFile
    metrics: list[str]  # a case
    case_index: dict[str, int]
    candidate_index: dict[str, int]
    log_median: FloatArray
    _middle: FloatArray = field(repr=False)  # (candidates, cases): median of log_median
    _layouts: list[_Layout] = field(repr=False)
    _layout: IntArray = field(repr=False)  # (candidates, cases, launches): an index, -1 for none
    _row: IntArray = field(repr=False)  # the same shape: which of the layout's timings
    _timings: dict[tuple[int, int, int], Timing] = field(repr=False)
    _results: dict[tuple[int, int], list[Result]] = field(repr=False)

    def samples(self, candidate: int, case: int) -> list[FloatArray]:
        """The samples of each launch that has any, in seconds per call."""
        return [
            np.array(self._timings[key].seconds)
            for launch in range(len(self.run.launches))
            if (key := (candidate, case, launch)) in self._timings
        ]

    def failure(self, candidate: int, case: int) -> Failure | None:
        """The failure, or None. A wrong result in any launch outranks any crash.

        A correct result whose blocks were all dropped has the status "throttled".
        """
        metric = self.metrics[case]
        bad = [
            (_THROTTLED if r.status == "ok" else r.status, r.reason)
            for r in self._results.get((candidate, case), ())
            if r.status != "ok" or _all_dropped(r, metric)
        ]
        chosen = [(status, reason) for status, reason in bad if status == "wrong"] or bad
        return Failure(*chosen[0], len(chosen)) if chosen else None

    def device_seconds(self, candidate: int, case: int) -> float:
        """Seconds spent on it in all launches, including checks and warm-up; 0 in older files."""
        return sum(result.device_seconds for result in self._results.get((candidate, case), ()))

    def launch_medians(self, candidate: int, case: int) -> FloatArray:
        """Medians in log seconds, of the launches that have one."""
        medians = self.log_median[candidate, case]
        present: FloatArray = medians[~np.isnan(medians)]
        return present

    def median_us(self, candidate: int, case: int) -> float | None:
        """Median over launches of the launch's median, in microseconds; None if never timed."""
        middle = float(self._middle[candidate, case])
        return None if math.isnan(middle) else math.exp(middle) * 1e6

    def is_wrong(self, candidate: int, case: int) -> bool:
        """Whether any launch found a wrong result."""
        return any(r.status == "wrong" for r in self._results.get((candidate, case), ()))

    def peak_memory(self, candidate: int, case: int) -> int | None:
        """Largest peak memory of any launch, bytes beyond the inputs."""
        found = [r.peak_memory_bytes for r in self._results.get((candidate, case), [])]
        return max((bytes_ for bytes_ in found if bytes_ is not None), default=None)

    def dropped_blocks(self) -> int:
        """Blocks dropped as throttled, over the whole file.

        A block is one pass over all candidates of a case, dropped for all of them: it counts once.
        """
        dropped: dict[tuple[int, str], int] = {}
        for launch in self.run.launches:
            for result in launch.results:
                place = launch.index, result.case
                dropped[place] = max(dropped.get(place, 0), result.dropped_blocks)
        return sum(dropped.values())

    def measured_metrics(self, candidate: int, case: int) -> list[str]:
        """Names of the metrics in the file for this candidate and case."""
        results = self._results.get((candidate, case), [])
        return sorted({t.metric for r in results for t in r.timings if t.seconds})

    def speedups(self, candidate: int, baseline: int) -> FloatArray:
        """(cases, launches): log(baseline time / candidate time); NaN where either is missing.

        The median over all pairs of samples of one block; without common blocks, the difference of
        medians.
        """
        ratio: FloatArray = self.log_median[baseline] - self.log_median[candidate]
        both = ~np.isnan(ratio)
        layout, reference_layout = self._layout[candidate], self._layout[baseline]
        # Pairs with the same block layout (nearly always all of them) are computed together.
        alike = set(zip(layout[both].tolist(), reference_layout[both].tolist(), strict=True))
        for ours, theirs in alike:
            times, references = self._layouts[ours], self._layouts[theirs]
            _, here, there = np.intersect1d(times.blocks, references.blocks, return_indices=True)
            if not len(here):
                continue
            cells = both & (layout == ours) & (reference_layout == theirs)
            rows, reference_rows = self._row[candidate][cells], self._row[baseline][cells]
            ratio[cells] = _shifts(
                [references.logs[block][reference_rows] for block in there],
                [times.logs[block][rows] for block in here],
            )
        return ratio

    def median_speedups(self, candidate: int, baseline: int) -> FloatArray:
        """(cases,): the median launch's speed-up, baseline time / candidate time; NaN if none."""
        middle: FloatArray = np.exp(_median_present(self.speedups(candidate, baseline)))
        return middle


def launch_data(run: RunFile, metric: str | None = None) -> LaunchData:
    """Reduce `run` to one number per launch; metric None: the default of each case's device."""
    cases = {case.id: index for index, case in enumerate(run.cases)}
    candidates = {candidate.name: index for index, candidate in enumerate(run.candidates)}
    metrics = [metric_of(case.device, metric) for case in run.cases]
    shape = (len(candidates), len(cases), len(run.launches))
    if np.prod(shape, dtype=float) > _MAX_CELLS:
        raise InvalidInputError(f"too large: {shape} candidates x cases x launches")
    timings: dict[tuple[int, int, int], Timing] = {}
    results: dict[tuple[int, int], list[Result]] = defaultdict(list)
    wrong: set[tuple[int, int]] = set()
    for launch_index, launch in enumerate(run.launches):
        for result in launch.results:
            pair = (candidates[result.candidate], cases[result.case])
            results[pair].append(result)
            if result.status == "wrong":
                wrong.add(pair)
            for timing in result.timings if result.status == "ok" else ():
                if timing.metric == metrics[pair[1]] and timing.seconds:
                    timings[*pair, launch_index] = timing
    if wrong:
        timings = {key: timing for key, timing in timings.items() if key[:2] not in wrong}
    log_median = np.full(shape, np.nan)
    layout, row = np.full((2, *shape), -1)
    layouts: list[_Layout] = []
    for blocks, keys in _by_layout(timings).items():
        logs = _stacked([timings[key].seconds for key in keys])
        np.log(logs, out=logs)
        cells = tuple(np.array(keys).T)
        log_median[cells] = _row_medians(logs)
        layout[cells], row[cells] = len(layouts), np.arange(len(keys))
        layouts.append(_in_blocks(logs, blocks[1:]))
    return LaunchData(
        run,
        metrics,
        cases,
        candidates,
        log_median,
        _median_present(log_median),
        layouts,
        layout,
        row,
        timings,
        dict(results),
    )


def baselines_of(run: RunFile, candidate: str = "") -> list[int]:
    """Indices of the baselines in a candidate's process; for None, in the first process."""
    baselines = [(i, c) for i, c in enumerate(run.candidates) if c.baseline]
    beside = candidate or (baselines[0][1].beside if baselines else "")
    return [i for i, c in baselines if c.beside in ("", beside)]


def baseline_index(run: RunFile, candidate: str = "") -> int | None:
    """Index of the default baseline in a candidate's process, as in `baselines_of`, or None."""
    found = baselines_of(run, candidate)
    return next(
        (i for i in found if is_default(run.candidates[i].spec)), found[0] if found else None
    )


def own_candidates(run: RunFile) -> list[tuple[int, Candidate]]:
    """The candidates other than baselines, with their indices."""
    return [(i, c) for i, c in enumerate(run.candidates) if not c.baseline]


def _all_dropped(result: Result, metric: str) -> bool:
    """Whether the metric was timed, but every block was dropped."""
    return result.dropped_blocks > 0 and any(
        timing.metric == metric and not timing.seconds for timing in result.timings
    )


def _by_layout(
    timings: dict[tuple[int, int, int], Timing],
) -> dict[tuple[int, ...], list[tuple[int, int, int]]]:
    """Group the timings by their number of samples, then by the block of each sample."""
    groups: dict[tuple[int, ...], list[tuple[int, int, int]]] = defaultdict(list)
    # Timings read for a report share their block lists: hash each list once.
    known: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    for key, timing in timings.items():
        size = len(timing.seconds)
        group = known.get((size, id(timing.block)))
        if group is None:
            group = groups[size, *timing.block]
            known[size, id(timing.block)] = group
        group.append(key)
    return groups


def _stacked(rows: list[MutableSequence[float]]) -> FloatArray:
    """(rows, samples); several times faster than np.array if the rows are already arrays."""
    flat = array("d")
    for row in rows:
        flat.extend(row)
    return np.frombuffer(flat).reshape(len(rows), -1)


def _row_medians(values: FloatArray) -> FloatArray:
    """Median of each row, without NaN; faster than np.median, which does not sort."""
    ordered = np.sort(values, axis=1)
    size = values.shape[1]
    medians: FloatArray = (ordered[:, (size - 1) // 2] + ordered[:, size // 2]) / 2
    return medians


def _median_present(values: FloatArray) -> FloatArray:
    """Median along the last axis, ignoring NaN; NaN if everything is. np.nanmedian warns about the
    latter and is slow."""
    if not values.shape[-1]:
        return np.full(values.shape[:-1], np.nan)
    ordered = np.sort(values, axis=-1)  # NaN sorts last
    present = np.count_nonzero(~np.isnan(values), axis=-1)[..., None]
    lower = np.take_along_axis(ordered, np.maximum(present - 1, 0) // 2, axis=-1)
    upper = np.take_along_axis(ordered, np.minimum(present // 2, values.shape[-1] - 1), axis=-1)
    middle: FloatArray = ((lower + upper) / 2)[..., 0]
    return middle


def _in_blocks(logs: FloatArray, blocks: tuple[int, ...]) -> _Layout:
    """logs: (timings, samples). Without block numbers there are no blocks."""
    if not blocks:
        return _Layout(np.empty(0, dtype=np.int64), [])
    if not 0 <= min(blocks) <= max(blocks) < MAX_COUNT:
        raise InvalidInputError("damaged run file: a block number is not a possible number")
    order = np.argsort(blocks, kind="stable")
    names, starts = np.unique(np.asarray(blocks)[order], return_index=True)
    return _Layout(names, [_thinned(logs[:, one]) for one in np.split(order, starts[1:])])


def _thinned(logs: FloatArray) -> FloatArray:
    """(timings, samples): as many quantiles in place of more samples than can be paired."""
    samples = logs.shape[1]
    if samples <= _MOST_OF_A_BLOCK:
        return logs
    ranks = (np.arange(_MOST_OF_A_BLOCK) + 0.5) / _MOST_OF_A_BLOCK * samples
    quantiles: FloatArray = np.sort(logs, axis=1)[:, ranks.astype(int)]
    return quantiles


def _shifts(references: list[FloatArray], times: list[FloatArray]) -> FloatArray:
    """Hodges and Lehmann's estimate of each row's shift, references - times, in blocks: the median
    of the differences of all pairs of samples of one block. Of each block: (rows, samples)."""
    pairs = sum(a.shape[1] * b.shape[1] for a, b in zip(references, times, strict=True))
    shifts = np.empty(len(times[0]))
    step = max(1, _PAIRS_AT_ONCE // pairs)
    for some in (slice(at, at + step) for at in range(0, len(shifts), step)):
        differences = [
            (a[some, :, None] - b[some, None, :]).reshape(len(shifts[some]), -1)
            for a, b in zip(references, times, strict=True)
        ]
        shifts[some] = _row_medians(np.concatenate(differences, axis=1))
    return shifts
