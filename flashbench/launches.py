"""Sample a launch: what each launch of a run file says, as arrays the statistics can work on.

The samples of one process resemble each other more than those of the next process, so a launch
counts once: it is reduced to one number a candidate and case (the median of its samples), and for
a pair of candidates to one log-ratio (the median over blocks of the log-ratio inside the block,
which cancels what drifts while the launch runs).
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from flashbench.case import Case
from flashbench.errors import InvalidInputError
from flashbench.runfile import Candidate, Result, RunFile, Timing

FloatArray = NDArray[np.float64]
DEFAULT_METRIC = {"cpu": "wall", "cuda": "gpu_warm"}
METRIC_LABELS = {
    "wall": "eager wall time",
    "gpu_warm": "GPU time, warm L2",
    "gpu_cold": "GPU time, cold L2",
    "graph": "CUDA graph replay",
}
_MAX_CELLS = 50_000_000  # 400 MB of float64: beyond it a file is damaged or hostile


def metric_of(case: Case, metric: str | None) -> str:
    """The metric to judge `case` by: the one asked for, or the default of its device."""
    return metric or DEFAULT_METRIC.get(case.device, "wall")


@dataclass(frozen=True, slots=True)
class Failures:
    """Launches in which a candidate gave no time for a case: how many, and the first of them."""

    launches: int
    status: str
    reason: str


@dataclass(frozen=True, slots=True)
class LaunchData:
    """The timed samples of one metric of a run file, by candidate, case and launch.

    log_median: (candidates, cases, launches), log seconds, NaN where nothing was measured, and
    everywhere for a candidate that was wrong on the case in any launch: it has no speed.
    """

    run: RunFile
    metrics: list[str]  # a case
    case_index: dict[str, int]
    candidate_index: dict[str, int]
    log_median: FloatArray
    _timings: dict[tuple[int, int, int], Timing] = field(repr=False)
    _results: dict[tuple[int, int], list[Result]] = field(repr=False)

    def samples(self, candidate: int, case: int) -> FloatArray:
        """All samples of all launches, ascending, in seconds a call."""
        found = [
            self._timings[key].seconds
            for launch in range(len(self.run.launches))
            if (key := (candidate, case, launch)) in self._timings
        ]
        return np.sort(_flat(found))

    def failures(self, candidate: int, case: int) -> Failures | None:
        """What went wrong, or None. A wrong result in one launch counts more than any crash."""
        bad = [r for r in self._results.get((candidate, case), ()) if r.status != "ok"]
        chosen = [r for r in bad if r.status == "wrong"] or bad
        return Failures(len(chosen), chosen[0].status, chosen[0].reason) if chosen else None

    def launch_medians(self, candidate: int, case: int) -> FloatArray:
        """(launches that have one,): log seconds."""
        medians = self.log_median[candidate, case]
        present: FloatArray = medians[~np.isnan(medians)]
        return present

    def median_us(self, candidate: int, case: int) -> float | None:
        """Median over launches of the launch's median, microseconds; None where never timed."""
        medians = self.launch_medians(candidate, case)
        return float(np.exp(np.median(medians))) * 1e6 if len(medians) else None

    def is_wrong(self, candidate: int, case: int) -> bool:
        """Whether any launch found a wrong result."""
        return any(r.status == "wrong" for r in self._results.get((candidate, case), ()))

    def peak_memory(self, candidate: int, case: int) -> int | None:
        """Largest peak memory of any launch, bytes beyond the inputs."""
        found = [r.peak_memory_bytes for r in self._results.get((candidate, case), [])]
        return max((bytes_ for bytes_ in found if bytes_ is not None), default=None)

    def dropped_blocks(self) -> int:
        """Blocks dropped as throttled, over the whole file."""
        return sum(r.dropped_blocks for results in self._results.values() for r in results)

    def measured_metrics(self, candidate: int, case: int) -> list[str]:
        """Names of the metrics that the file has for this candidate and case."""
        results = self._results.get((candidate, case), [])
        return sorted({t.metric for r in results for t in r.timings if t.seconds})

    def speedups(self, candidate: int, baseline: int) -> FloatArray:
        """(cases, launches): log(baseline time / candidate time); NaN where either is missing.

        The median over the blocks that both have; without common blocks, of the medians.
        """
        ratio: FloatArray = self.log_median[baseline] - self.log_median[candidate]
        cells = np.argwhere(~np.isnan(ratio))
        pairs = []
        for case, launch in cells.tolist():
            timing = self._timings[candidate, case, launch]
            reference = self._timings[baseline, case, launch]
            if timing.block and reference.block:
                pairs.append((case, launch, timing, reference))
        for (case, launch), value in _block_medians(pairs):
            ratio[case, launch] = value
        return ratio


def collect(run: RunFile, metric: str | None = None) -> LaunchData:
    """Reduce `run` to one number a launch; metric None: the default of each case's device."""
    cases = {case.id: index for index, case in enumerate(run.cases)}
    candidates = {candidate.name: index for index, candidate in enumerate(run.candidates)}
    metrics = [metric_of(case, metric) for case in run.cases]
    shape = (len(candidates), len(cases), len(run.launches))
    if np.prod(shape, dtype=float) > _MAX_CELLS:
        raise InvalidInputError(f"too large: {shape} candidates x cases x launches")
    timings: dict[tuple[int, int, int], Timing] = {}
    results: dict[tuple[int, int], list[Result]] = defaultdict(list)
    for launch_index, launch in enumerate(run.launches):
        for result in launch.results:
            pair = (candidates[result.candidate], cases[result.case])
            results[pair].append(result)
            for timing in result.timings if result.status == "ok" else ():
                if timing.metric == metrics[pair[1]] and timing.seconds:
                    timings[*pair, launch_index] = timing
    wrong = {pair for pair, all_ in results.items() if any(r.status == "wrong" for r in all_)}
    timings = {key: timing for key, timing in timings.items() if key[:2] not in wrong}
    log_median = np.full(shape, np.nan)
    by_length: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for key, timing in timings.items():
        by_length[len(timing.seconds)].append(key)
    for length, keys in by_length.items():
        values = _flat([timings[key].seconds for key in keys]).reshape(len(keys), length)
        log_median[tuple(np.array(keys).T)] = np.log(np.median(values, axis=1))
    return LaunchData(run, metrics, cases, candidates, log_median, timings, dict(results))


def baseline_index(run: RunFile) -> int | None:
    """Index of SDPA's default among the candidates; None where the file has no such candidate."""
    for index, candidate in enumerate(run.candidates):
        if candidate.spec == "sdpa":
            return index
    return next((i for i, c in enumerate(run.candidates) if c.baseline), None)


def own_candidates(run: RunFile) -> list[tuple[int, Candidate]]:
    """The candidates that are not SDPA's, with their indices."""
    return [(i, c) for i, c in enumerate(run.candidates) if not c.baseline]


def _flat(lists: list[list[float]]) -> FloatArray:
    return np.fromiter(chain.from_iterable(lists), dtype=np.float64, count=sum(map(len, lists)))


def _block_medians(
    pairs: list[tuple[int, int, Timing, Timing]],
) -> Iterable[tuple[tuple[int, int], float]]:
    """Median over common blocks of the difference of mean logs, for many pairs at once.

    Pairs with one layout of blocks (nearly always all of them) are worked on together.
    """
    layouts: dict[tuple[tuple[int, ...], tuple[int, ...]], list[int]] = defaultdict(list)
    for index, (_, _, ours, theirs) in enumerate(pairs):
        layouts[tuple(ours.block), tuple(theirs.block)].append(index)
    for (blocks, reference_blocks), members in layouts.items():
        common = np.intersect1d(blocks, reference_blocks)
        if not len(common):
            continue
        times = _mean_log([pairs[i][2].seconds for i in members], blocks, common)
        references = _mean_log([pairs[i][3].seconds for i in members], reference_blocks, common)
        medians = np.median(references - times, axis=1)
        for index, median in zip(members, medians.tolist(), strict=True):
            yield pairs[index][:2], median


def _mean_log(
    seconds: list[list[float]], blocks: tuple[int, ...], wanted: NDArray[np.int64]
) -> FloatArray:
    """(pairs, wanted blocks): mean of the log samples in each block."""
    values = np.log(_flat(seconds)).reshape(len(seconds), len(blocks))
    order = np.argsort(blocks, kind="stable")
    ordered = np.asarray(blocks)[order]
    names, starts, counts = np.unique(ordered, return_index=True, return_counts=True)
    means = np.add.reduceat(values[:, order], starts, axis=1) / counts
    chosen: FloatArray = means[:, np.isin(names, wanted)]
    return chosen
