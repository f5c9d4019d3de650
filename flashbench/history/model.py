"""A history in memory: commits, machines, and the measurements of each commit, as arrays.

`flashbench.history.load` reads one from asv's results folder; `flashbench.history.changes` finds
where a series changed. Every `commit` below is an index into `History.commits`, whose order is that
of time: parents before children, along the first parents unless asked otherwise.

All text here (subjects, authors, names, parameters, reasons) is untrusted.
"""

from dataclasses import dataclass, field, fields

import numpy as np
from numpy.typing import NDArray

from flashbench.baseline_names import is_baseline_name
from flashbench.revisions.commits import Commit
from flashbench.stats.shift import Shift

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine, as asv describes it; empty strings where it does not say."""

    name: str
    cpu: str = ""
    gpu: str = ""
    os: str = ""
    ram: str = ""


@dataclass(frozen=True, slots=True)
class Points:
    """Estimates along the commits, each array (points,), at most one a commit.

    low, high: the 99 % interval of the median that asv keeps; NaN where there are too few samples
    for one. q25, q75: quartiles of the samples, NaN where unknown. launches: how many processes
    the value is the median of; 0 where the file does not say. p90, p99: percentiles of the single
    samples of all launches, NaN where unknown.
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

    def __len__(self) -> int:
        return len(self.commit)

    def __getitem__(self, part: slice) -> "Points":
        return Points(*(getattr(self, column.name)[part] for column in fields(self)))


@dataclass(frozen=True, slots=True)
class Series:
    """One benchmark with one combination of parameters, on one machine and environment.

    benchmark, parameters: as asv names them; parameters are (name, value) with asv's quotes taken
    off. metric: "wall", "gpu_warm"...; "" for what is not ours. case, candidate: of flashbench's
    own cases, else "". control: SDPA on the same case at the commits that have one; ratio: time of
    the candidate over SDPA's, launch by launch. Both None where nothing was measured beside it.
    failed: commits at which it was tried and has no result.
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
    failed: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @property
    def name(self) -> str:
        """For people, the same on every machine."""
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
        """What changes are looked for in: the ratio to SDPA, where there is one."""
        return self.points if self.ratio is None else self.ratio


@dataclass(frozen=True, slots=True)
class Gap:
    """A commit that has no numbers on a machine, and why ("" for every machine)."""

    commit: int
    machine: str
    status: str  # of the build: "missing header", "compile error"...
    reason: str


@dataclass(frozen=True, slots=True)
class Change:
    """A place where a series changed for good, and how sure that is.

    commit: the likeliest, the first measured one that is different. first, last: any commit from
    first to last may have made it (95 %); with first parents, a merge stands for what it merged.
    speedup: log speed-up of after over before, with its interval; above 0 is faster. before,
    after: how many points each side of it has. hidden: commits from first to last that could not be
    built; unmeasured: those that were not measured, for this or any other reason, beside the ones
    that were.
    """

    commit: int
    first: int
    last: int
    speedup: Shift
    before: int
    after: int
    hidden: tuple[Gap, ...] = ()
    unmeasured: int = 0


@dataclass(frozen=True, slots=True)
class History:
    """Everything that is known. off_axis: commits that have results and are not in `commits`;
    notes: what was passed over on reading, one line each."""

    commits: tuple[Commit, ...]
    machines: tuple[Machine, ...]
    series: tuple[Series, ...]
    gaps: tuple[Gap, ...] = ()
    off_axis: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def off_axis_hint(self) -> str:
        """How the commits off the axis that were merged into it can be shown; "" if none was."""
        merged = {commit for one in self.commits for commit in one.merged}
        count = len(merged.intersection(self.off_axis))
        return f"; {count} of merged branches, which --all-parents shows" if count else ""
