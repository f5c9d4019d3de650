"""Named series of one number a launch: what every tool's file comes down to.

A launch is a process. Samples of one process resemble each other (docs/statistics.md), so they are
kept for percentiles only, and a launch counts with their median.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from flashbench.baseline_names import SDPA, is_baseline_name
from flashbench.comparison import Problem
from flashbench.metric import UNIT
from flashbench.runfile import MAX_SECONDS, MIN_SECONDS

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

SECONDS = UNIT
UNKNOWN = ""  # a unit or a metric that the file does not state
ONE_PROCESS = "one process: its samples are not launches"
NO_SAMPLES = "no raw samples, only statistics"
_CASE = re.compile(
    r"\bb\d+-h\d+(?:-g\d+)?-q\d+(?:-k\d+)?-d\d+-(?:fp32|fp16|bf16)-(?:causal|full)-(?:cpu|cuda)\b"
)


@dataclass(frozen=True, slots=True)
class Launches:
    """One number a launch. numbers: (launches,), which launch of the set; values: (launches,)."""

    numbers: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    values: FloatArray = field(default_factory=lambda: np.empty(0))

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True, slots=True)
class Series:
    """One benchmark. times: its median a launch, in `unit`; speedups: log(SDPA's time / its own) a
    launch, empty where the file has no SDPA beside it; problem: why there are no times."""

    name: str
    unit: str = SECONDS
    times: Launches = field(default_factory=Launches)
    samples: tuple[FloatArray, ...] = ()  # of each launch that has any
    case: str = ""  # Case.id, where the benchmark says so
    candidate: str = ""
    metric: str = UNKNOWN
    speedups: Launches = field(default_factory=Launches)
    lacks: tuple[str, ...] = ()  # what a verdict would need
    problem: Problem | None = None
    partial: Problem | None = None  # some launches failed

    @property
    def baseline(self) -> bool:
        """Whether this is SDPA, the control."""
        return is_baseline_name(self.candidate)


@dataclass(frozen=True, slots=True)
class SeriesSet:
    """All series of a file, or of a folder of files. Empty strings where it does not say."""

    source: str  # the path
    tool: str
    series: tuple[Series, ...]
    launches: int  # those that `Launches.numbers` count
    files: int = 1
    machine: str = ""
    cpu: str = ""
    gpu: str = ""
    torch: str = ""
    commit: str = ""
    dirty: bool = False

    def control(self, case: str, metric: str) -> Series | None:
        """SDPA's default on a case, with times."""
        for series in self.series:
            if (series.case, series.candidate) == (case, SDPA) and len(series.times):
                return series if series.metric == metric else None
        return None


def find_case(text: str) -> str:
    """The case id in a benchmark's name or parameters; "" without one."""
    found = _CASE.search(text)
    return found[0] if found else ""


def impossible(unit: str, value: float) -> bool:
    """Whether a number cannot be a measurement of a ratio scale in this unit."""
    if unit == SECONDS:
        return not MIN_SECONDS <= value <= MAX_SECONDS
    return not 1e-300 <= value <= 1e300


def with_control(collected: SeriesSet) -> SeriesSet:
    """Fill in the speed-ups over SDPA of every series that has SDPA in the same launches."""
    out = []
    for series in collected.series:
        control = collected.control(series.case, series.metric) if series.case else None
        timed = control is not None and series.unit == control.unit == SECONDS
        if control is not None and timed and not series.baseline:
            numbers, ours, theirs = np.intersect1d(
                series.times.numbers, control.times.numbers, return_indices=True
            )
            logs = np.log(control.times.values[theirs]) - np.log(series.times.values[ours])
            series = replace(series, speedups=Launches(numbers, logs))
        out.append(series)
    return replace(collected, series=tuple(out))


def joined(source: str, sets: Sequence[SeriesSet]) -> SeriesSet:
    """Several files as one set: the launches of one after those of the other.

    sets: at least one, of one tool. A series that some files lack, or in which it failed, goes on
    with the others, and says so.
    """
    by_name: dict[str, list[tuple[int, Series]]] = defaultdict(list)
    offset = 0
    for one in sets:
        for series in one.series:
            by_name[series.name].append((offset, series))
        offset += one.launches
    members = tuple(_joined_series(parts, len(sets)) for parts in by_name.values())
    return replace(sets[0], source=source, series=members, launches=offset, files=len(sets))


def _joined_series(parts: list[tuple[int, Series]], files: int) -> Series:
    timed = [(offset, series) for offset, series in parts if series.problem is None]
    failed = [series.problem for _, series in parts if series.problem is not None]
    if not timed:
        return parts[0][1]
    partial = timed[0][1].partial
    if failed:
        partial = replace(failed[0], launches=len(failed))
    elif len(parts) < files:
        partial = Problem("missing", "it is not in the file", files - len(parts))
    samples = tuple(launch for _, series in timed for launch in series.samples)
    lacks = dict.fromkeys(text for _, series in timed for text in series.lacks)
    several = sum(len(series.times) for _, series in timed) > 1
    return replace(
        timed[0][1],
        times=_concatenated([(offset, series.times) for offset, series in timed]),
        speedups=_concatenated([(offset, series.speedups) for offset, series in timed]),
        samples=samples,
        lacks=tuple(text for text in lacks if text == NO_SAMPLES or not several),
        partial=partial,
    )


def _concatenated(parts: list[tuple[int, Launches]]) -> Launches:
    return Launches(
        np.concatenate([offset + launches.numbers for offset, launches in parts]),
        np.concatenate([launches.values for _, launches in parts]),
    )
