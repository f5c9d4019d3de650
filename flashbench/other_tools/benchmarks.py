"""BenchmarkSet: named benchmarks with one number per launch, the common form of all tools' files.

A launch is a process. Samples of one process resemble each other (docs/statistics.md), so a launch
counts with their median; the samples are kept for percentiles only.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from flashbench import operations
from flashbench.arrays import FloatArray, IntArray
from flashbench.baseline_names import is_baseline_name, is_default
from flashbench.launches import Failure
from flashbench.metric import UNIT
from flashbench.run_validation import MAX_SECONDS, MIN_SECONDS

SECONDS = UNIT
NOT_STATED = ""  # a unit or metric that the file does not state
ONE_PROCESS = "one process: its samples are not launches"
NO_SAMPLES = "no raw samples, only statistics"


@dataclass(frozen=True, slots=True)
class Launches:
    """One value per launch. numbers: (launches,), indices of the set's launches; values:
    (launches,)."""

    numbers: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    values: FloatArray = field(default_factory=lambda: np.empty(0))

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True, slots=True)
class BenchmarkTimes:
    """One benchmark. times: a median per launch, in `unit`; speedups: log(SDPA's time / its own)
    per launch, empty if the file has no SDPA for it; failure: why there are no times."""

    name: str
    unit: str = SECONDS
    times: Launches = field(default_factory=Launches)
    samples: tuple[FloatArray, ...] = ()  # by launch, of those that have any
    case: str = ""  # Case.id if the benchmark has one
    candidate: str = ""
    metric: str = NOT_STATED
    speedups: Launches = field(default_factory=Launches)
    lacks: tuple[str, ...] = ()  # what a verdict would need
    failure: Failure | None = None
    partial: Failure | None = None  # some launches failed

    @property
    def baseline(self) -> bool:
        """Whether this is SDPA, the control."""
        return is_baseline_name(self.candidate)


@dataclass(frozen=True, slots=True)
class BenchmarkSet:
    """All benchmarks of a file or of a folder of files. Strings are empty if unknown."""

    source: str  # the path
    tool: str
    benchmarks: tuple[BenchmarkTimes, ...]
    launches: int  # indexed by `Launches.numbers`
    files: int = 1
    machine: str = ""
    cpu: str = ""
    gpu: str = ""
    torch: str = ""
    commit: str = ""
    dirty: bool = False

    def control(self, case: str, metric: str) -> BenchmarkTimes | None:
        """The default baseline on a case, if it has times."""
        for benchmark in self.benchmarks:
            same = benchmark.case == case and is_default(benchmark.candidate)
            if same and len(benchmark.times):
                return benchmark if benchmark.metric == metric else None
        return None


def find_case(text: str) -> str:
    """The case id in a benchmark's name or parameters; "" without one."""
    return operations.find_id(text)


def impossible(unit: str, value: float) -> bool:
    """Whether a number cannot be a measurement of a ratio scale in this unit."""
    if unit == SECONDS:
        return not MIN_SECONDS <= value <= MAX_SECONDS
    return not 1e-300 <= value <= 1e300


def with_control(collected: BenchmarkSet) -> BenchmarkSet:
    """Fill in the speed-up over SDPA of every benchmark whose launches also timed SDPA."""
    out = []
    for benchmark in collected.benchmarks:
        control = collected.control(benchmark.case, benchmark.metric) if benchmark.case else None
        timed = control is not None and benchmark.unit == control.unit == SECONDS
        if control is not None and timed and not benchmark.baseline:
            numbers, ours, theirs = np.intersect1d(
                benchmark.times.numbers, control.times.numbers, return_indices=True
            )
            logs = np.log(control.times.values[theirs]) - np.log(benchmark.times.values[ours])
            benchmark = replace(benchmark, speedups=Launches(numbers, logs))
        out.append(benchmark)
    return replace(collected, benchmarks=tuple(out))


def joined(source: str, sets: Sequence[BenchmarkSet]) -> BenchmarkSet:
    """Concatenate the launches of several files into one set.

    sets: at least one, of one tool. A benchmark that is missing or failed in some files keeps the
    launches of the others and is marked `partial`.
    """
    by_name: dict[str, list[tuple[int, BenchmarkTimes]]] = defaultdict(list)
    offset = 0
    for one in sets:
        for benchmark in one.benchmarks:
            by_name[benchmark.name].append((offset, benchmark))
        offset += one.launches
    members = tuple(_joined_series(parts, len(sets)) for parts in by_name.values())
    return replace(sets[0], source=source, benchmarks=members, launches=offset, files=len(sets))


def _joined_series(parts: list[tuple[int, BenchmarkTimes]], files: int) -> BenchmarkTimes:
    timed = [(offset, benchmark) for offset, benchmark in parts if benchmark.failure is None]
    failed = [benchmark.failure for _, benchmark in parts if benchmark.failure is not None]
    if not timed:
        return parts[0][1]
    partial = timed[0][1].partial
    if failed:
        partial = replace(failed[0], launches=len(failed))
    elif len(parts) < files:
        partial = Failure("missing", "it is not in the file", files - len(parts))
    samples = tuple(launch for _, benchmark in timed for launch in benchmark.samples)
    lacks = dict.fromkeys(text for _, benchmark in timed for text in benchmark.lacks)
    several = sum(len(benchmark.times) for _, benchmark in timed) > 1
    return replace(
        timed[0][1],
        times=_concatenated([(offset, benchmark.times) for offset, benchmark in timed]),
        speedups=_concatenated([(offset, benchmark.speedups) for offset, benchmark in timed]),
        samples=samples,
        lacks=tuple(text for text in lacks if text == NO_SAMPLES or not several),
        partial=partial,
    )


def _concatenated(parts: list[tuple[int, Launches]]) -> Launches:
    return Launches(
        np.concatenate([offset + launches.numbers for offset, launches in parts]),
        np.concatenate([launches.values for _, launches in parts]),
    )
