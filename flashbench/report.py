"""Report: one or two run files judged, with every caveat as data beside the numbers."""

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from statistics import median

from flashbench import defaults, operations
from flashbench.baseline_names import title
from flashbench.comparison import (
    Comparison,
    against_baseline,
    between_builds,
    between_runs,
    geometric_mean,
    if_correlated,
    looks,
)
from flashbench.errors import InvalidInputError
from flashbench.launches import (
    LaunchData,
    baseline_index,
    baselines_of,
    launch_data,
    own_candidates,
)
from flashbench.pairing import BEST
from flashbench.runfile import Candidate, RunFile
from flashbench.stats.shift import Shift
from flashbench.verdict import DIFFERENT, Verdict, judge, outcome_of

_SHOW_ORDER = 16  # cases that show how launches correlate before one is called different
_CORRELATION = 0.5
_CLOCKS = 0.02  # a larger change of a clock may change the ratio to the baseline


@dataclass(frozen=True, slots=True)
class Caveat:
    """A limitation that must be shown beside the numbers."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Report:
    """data: one run file or two (A, B). overall: the geometric mean of the log speed-ups, one per
    candidate name. best: against the best baseline, one file only."""

    data: tuple[LaunchData, ...]
    comparisons: list[Comparison]
    verdicts: list[Verdict]
    overall: dict[str, Shift]
    tolerance: float
    alpha: float
    best: list[Comparison] = field(default_factory=list)
    caveats: list[Caveat] = field(default_factory=list)

    @property
    def judged(self) -> list[tuple[Comparison, Verdict]]:
        """Each comparison with its verdict."""
        return list(zip(self.comparisons, self.verdicts, strict=True))


def report_one(
    run: RunFile,
    *,
    metric: str | None = None,
    against: str = "sdpa",
    tolerance: float = defaults.TOLERANCE,
    alpha: float = defaults.ALPHA,
) -> Report:
    """Judge the candidates of one run file against its default baseline, or its best.

    A file without candidates, or without a baseline, gives a report without comparisons; one
    measured to compare two builds gives theirs.
    """
    if run.pair is not None:
        if against == BEST:
            raise InvalidInputError("--against best is not for a comparison of two builds")
        return report_builds(run, metric=metric, tolerance=tolerance, alpha=alpha)
    data = launch_data(run, metric)
    comparisons: list[Comparison] = []
    best: list[Comparison] = []
    if own_candidates(run) and baseline_index(run) is not None:
        comparisons = against_baseline(data, against, alpha, tolerance)
        only_default = len(baselines_of(run)) == 1
        best = (
            comparisons
            if against == BEST or only_default
            else against_baseline(data, BEST, alpha, tolerance)
        )
    return _report((data,), comparisons, best, tolerance, alpha, _caveats(data, ""))


def report_pair(run: RunFile) -> Report:
    """`report_builds` by the rule that decided the cases."""
    pair = run.pair
    assert pair is not None
    rule = pair.metric or None, pair.tolerance, 1 - pair.confidence
    return report_builds(run, metric=rule[0], tolerance=rule[1], alpha=rule[2])


def report_builds(
    run: RunFile,
    *,
    metric: str | None = None,
    tolerance: float = defaults.TOLERANCE,
    alpha: float = defaults.ALPHA,
) -> Report:
    """Judge the new build of a run file's pair against the old one."""
    data = launch_data(run, metric)
    comparisons = between_builds(data, alpha, tolerance)
    caveats = _caveats(data, "")
    assert run.pair is not None
    by_name = {candidate.name: candidate for candidate in run.candidates}
    caveats += _same_library([by_name[run.pair.old]], [by_name[run.pair.new]])
    return _report((data,), comparisons, [], tolerance, alpha, caveats)


def report_two(
    a: RunFile,
    b: RunFile,
    *,
    metric: str | None = None,
    tolerance: float = defaults.TOLERANCE,
    alpha: float = defaults.ALPHA,
    allow: Collection[str] = (),
) -> Report:
    """Judge B against A with the baseline as the control.

    Raises InvalidInputError if they have nothing in common, or come from different machines (unless
    `allow` has "different-machine").
    """
    for run, which in ((a, "first"), (b, "second")):
        if run.pair is not None:
            raise InvalidInputError(
                f"the {which} run file holds two builds that were measured together until decided: "
                "compare it alone"
            )
    caveats = _machines(a, b, allow)
    data = launch_data(a, metric), launch_data(b, metric)
    caveats += _caveats(data[0], "A: ") + _caveats(data[1], "B: ")
    comparisons = between_runs(*data, alpha, tolerance)
    caveats += _clocks(a, b) + _control_moved(comparisons, tolerance)
    cases_a = {case.id for case in a.cases}
    new = sum(1 for case in b.cases if case.id not in cases_a)
    if new:
        caveats.append(Caveat("new-cases", f"{new} cases are only in B and are not compared"))
    return _report(data, comparisons, [], tolerance, alpha, caveats)


def _report(
    data: tuple[LaunchData, ...],
    comparisons: list[Comparison],
    best: list[Comparison],
    tolerance: float,
    alpha: float,
    caveats: list[Caveat],
) -> Report:
    overall = {}
    # Two builds in one file are compared by a rule that allows for any number of looks.
    price = 1 if data[0].run.pair else looks(*data)
    for name in dict.fromkeys(c.candidate for c in comparisons):
        mean = geometric_mean([c for c in comparisons if c.candidate == name], alpha / price)
        if mean is not None:
            overall[name] = mean
    verdicts = [judge(c, tolerance) for c in comparisons]
    if price > 1:
        message = (
            "launches were added to a file that may have been compared before: the intervals are "
            f"those of {price} times as many comparisons"
        )
        caveats = [*caveats, Caveat("compared-before", message)]
    caveats = caveats + launch_order(comparisons, verdicts, tolerance)
    return Report(data, comparisons, verdicts, overall, tolerance, alpha, best, caveats)


def launch_order(
    comparisons: list[Comparison], verdicts: list[Verdict], tolerance: float
) -> list[Caveat]:
    """The caveat that the intervals allow for correlated launches, if they do; or that verdicts
    would not hold if launches were, where too few cases show whether they are."""
    correlation = max(
        (c.estimate.terms.correlation for c in comparisons if c.estimate), default=0.0
    )
    if not correlation:
        limit = math.log1p(tolerance)
        fragile = 0
        if len(comparisons) < _SHOW_ORDER:
            for comparison, verdict in zip(comparisons, verdicts, strict=True):
                if verdict.outcome in DIFFERENT:
                    shift, estimate = if_correlated(comparison, _CORRELATION), comparison.estimate
                    shared = estimate.shared if estimate else 0.0
                    fragile += outcome_of(shift, limit, shared) not in DIFFERENT
        if not fragile:
            return []
        message = (
            f"{fragile} of {len(comparisons)} would be undecided if each launch resembled the one "
            f"before (autocorrelation {_CORRELATION}), which so few cases and launches do not show"
        )
        return [Caveat("few-cases", message)]
    message = (
        f"each launch resembles the one before (autocorrelation {correlation:.2f}): the intervals "
        "are wider for it; let the machine settle"
    )
    return [Caveat("launch-order", message)]


def _caveats(data: LaunchData, side: str) -> list[Caveat]:
    run = data.run
    found = []
    unfinished = sum(1 for launch in run.launches if not launch.complete)
    if unfinished:
        found.append(
            Caveat("unfinished", f"{side}{unfinished} of {len(run.launches)} launches unfinished")
        )
    dropped = data.dropped_blocks()
    if dropped:
        found.append(Caveat("throttled", f"{side}{dropped} throttled blocks were dropped"))
    for _, candidate in own_candidates(run):
        if candidate.build.dirty:
            found.append(
                Caveat("dirty", f"{side}{candidate.name} was built from uncommitted changes")
            )
    return found


def _machines(a: RunFile, b: RunFile, allow: Collection[str]) -> list[Caveat]:
    """Refuse differences that change ratios to the baseline; report those that might."""
    devices = {case.device for case in (*a.cases, *b.cases)}
    decisive = [("GPU", "gpu")] if "cuda" in devices else []
    decisive += [("CPU", "cpu"), ("thread count", "threads")] if "cpu" in devices else []
    found = []
    control = title(operations.of_file(a.cases).baseline)
    for what, name in decisive:
        old, new = getattr(a.environment, name), getattr(b.environment, name)
        if old == new:
            continue
        message = f"the {what} differs: {old or 'unknown'!r} in A, {new or 'unknown'!r} in B"
        if "different-machine" not in allow:
            raise InvalidInputError(
                f"{message}; even the ratio to {control} depends on it: measure both on one "
                "machine, or pass --allow different-machine"
            )
        found.append(Caveat("machine", message))
    for what, name in (("torch", "torch"), ("CUDA", "cuda"), ("driver", "driver")):
        old, new = getattr(a.environment, name), getattr(b.environment, name)
        if old != new:
            found.append(
                Caveat(
                    "control",
                    f"{what} differs ({old or 'unknown'} in A, {new or 'unknown'} in B): "
                    f"{control}, the control, may itself have changed",
                )
            )
    sides = [[c for _, c in own_candidates(run)] for run in (a, b)]
    return found + _same_library(*sides)


def _clocks(a: RunFile, b: RunFile) -> list[Caveat]:
    """Clocks after launches, as medians, that differ between the files."""
    found = []
    for what, name in (("GPU", "sm_clock_mhz"), ("CPU", "cpu_mhz")):
        states = [[launch.after for launch in run.launches if launch.after] for run in (a, b)]
        known = [[mhz for state in side if (mhz := getattr(state, name))] for side in states]
        if not all(known):
            continue
        old, new = map(median, known)
        if abs(math.log(new / old)) > _CLOCKS:
            found.append(
                Caveat(
                    "clock",
                    f"the {what} ran at {old:.0f} MHz in A and {new:.0f} MHz in B: a candidate and "
                    "its control need not follow alike; to be sure, compare two revisions, which "
                    "are measured together",
                )
            )
    return found


def _control_moved(comparisons: list[Comparison], tolerance: float) -> list[Caveat]:
    """Where the control itself changed by more than the tolerance."""
    limit = math.log1p(tolerance)
    machines = [c.pairing.machine for c in comparisons if c.pairing.machine]
    moved = [one.value for one in machines if one.low > limit or one.high < -limit]
    if not moved:
        return []
    message = (
        f"the control itself changed by more than {100 * tolerance:.6g} % in {len(moved)} of "
        f"{len(machines)} comparisons (at the median {math.exp(median(moved)):.3f}): what moved it "
        "need not move a candidate alike"
    )
    return [Caveat("control-moved", message)]


def _same_library(a: Iterable[Candidate], b: Iterable[Candidate]) -> list[Caveat]:
    libraries_a = {candidate.build.library_hash for candidate in a} - {""}
    libraries_b = {candidate.build.library_hash for candidate in b} - {""}
    if not libraries_a or libraries_a != libraries_b:
        return []
    message = (
        "A and B have the same library: only a difference in their Python can change a verdict"
    )
    return [Caveat("same-library", message)]
