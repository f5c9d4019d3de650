"""A history in memory: commits, machines, and each commit's measurements as arrays.

`flashbench.history.read` reads one from asv's results folder; `flashbench.history.changes` finds
its change points. Every `commit` below is an index into `History.commits`, which is in order of
time: parents before children, along first parents by default.

All text here (subjects, authors, names, parameters, reasons) is untrusted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

from flashbench.arrays import FloatArray, IntArray
from flashbench.baseline_names import is_baseline_name
from flashbench.cost.spent import Spent
from flashbench.revisions.commits import Commit
from flashbench.stats.shift import Shift


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine as asv describes it; unknown fields are empty."""

    name: str
    cpu: str = ""
    gpu: str = ""
    os: str = ""
    ram: str = ""


def together(places: Sequence[IntArray]) -> IntArray:
    """The commits that are in any of these arrays, ascending. Their number is small beside that of
    all series' points, so this need not sort them."""
    there = np.zeros(1 + max((int(one.max(initial=-1)) for one in places), default=-1), np.bool_)
    for one in places:
        there[one] = True
    return np.flatnonzero(there)


@dataclass(frozen=True, slots=True)
class Points:
    """Estimates along the commits, at most one per commit; each array is (points,), but samples.

    low, high: asv's 99 % interval of the median, NaN with too few samples. q25, q75: quartiles of
    the samples, NaN if unknown. launches: the number of processes behind the median, 0 if unknown.
    p90, p99: percentiles over all samples of all launches, NaN if unknown. samples: (points,
    launches) of ratios by a device's default metric, NaN beyond those kept; (0, 0) of others.
    """

    commit: IntArray  # ascending
    value: FloatArray  # in the unit of the series; above 0
    low: FloatArray
    high: FloatArray
    q25: FloatArray
    q75: FloatArray
    launches: IntArray
    p90: FloatArray
    p99: FloatArray
    samples: NDArray[np.floating] = field(default_factory=lambda: np.empty((0, 0), np.float32))

    def __len__(self) -> int:
        return len(self.commit)

    def __getitem__(self, part: slice) -> "Points":
        return Points(*(getattr(self, column.name)[part] for column in fields(self)))


@dataclass(frozen=True, slots=True)
class Series:
    """One benchmark with one combination of parameters, on one machine and environment.

    benchmark, parameters: asv's names; parameters are (name, value) without asv's quotes. metric:
    "wall", "gpu_warm"...; "" if the benchmark is not ours. case, candidate: the same. control:
    SDPA on the same case, at commits that have it; ratio: the candidate's time over SDPA's, by
    launch. Both are None if SDPA was not measured. of_medians: no ratio by launch was kept, and
    `ratio` is that of the medians, without intervals. failed: commits where it was tried without a
    result.
    """

    machine: str
    environment: str
    benchmark: str
    parameters: tuple[tuple[str, str], ...]
    unit: str
    points: Points
    metric: str = ""
    case: str = ""
    candidate: str = ""
    control: Points | None = None
    ratio: Points | None = None
    of_medians: bool = False
    failed: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @property
    def name(self) -> str:
        """A readable name, the same on every machine."""
        if self.case:
            return " ".join(part for part in (self.case, self.candidate, self.metric) if part)
        values = ", ".join(value for _, value in self.parameters)
        return f"{self.benchmark}({values})" if values else self.benchmark

    @property
    def baseline(self) -> bool:
        """Whether this is SDPA, the control, or one of its backends."""
        return is_baseline_name(self.candidate)

    @property
    def judged(self) -> Points:
        """The points searched for changes: the ratio to SDPA, or the values without one."""
        return self.points if self.ratio is None else self.ratio


@dataclass(frozen=True, slots=True)
class Gap:
    """A commit that has no numbers on a machine, and why ("" for every machine)."""

    commit: int
    machine: str
    status: str  # the build's: "missing header", "compile error"...
    reason: str


@dataclass(frozen=True, slots=True)
class Change:
    """A change point of a series: a lasting change, with its uncertainty.

    commit: the most likely one, the first measured after the change. first, last: the change is
    between these (95 %); along first parents, a merge stands for what it merged. speedup: log
    speed-up of after over before, with its interval; above 0 is faster. before, after: number of
    points on each side. provisional: it does not count yet (`stats/lasting.py`). hidden: commits
    from first to last that could not be built; unmeasured: all of them without a measurement, for
    whatever reason.
    """

    commit: int
    first: int
    last: int
    speedup: Shift
    before: int
    after: int
    provisional: bool = False
    hidden: tuple[Gap, ...] = ()
    unmeasured: int = 0


@dataclass(frozen=True, slots=True)
class History:
    """A whole history. off_axis: commits with results that are not in `commits`; notes: what was
    skipped while reading, one line each; spent: on the results of each machine and commit."""

    commits: tuple[Commit, ...]
    machines: tuple[Machine, ...]
    series: tuple[Series, ...]
    gaps: tuple[Gap, ...] = ()
    off_axis: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    spent: Mapping[tuple[str, int], Spent] = field(default_factory=dict)

    @property
    def off_axis_hint(self) -> str:
        """A hint on how to show commits off the axis that were merged into it; "" without any."""
        merged = {commit for one in self.commits for commit in one.merged}
        count = len(merged.intersection(self.off_axis))
        return f"; {count} on merged branches, which --all-parents shows" if count else ""
