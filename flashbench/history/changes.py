"""Find the change points of a history's series, and the commits that may have caused each."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from flashbench.arrays import FloatArray
from flashbench.history.model import Change, Gap, History, Series
from flashbench.stats.segments import FEWEST, Segmentation, Step, calibrate, segment_all


@dataclass(frozen=True, slots=True)
class FoundChanges:
    """changes: of each series, oldest first; None if it has too few points (fewer than 8) to show
    any. factors: by machine, the factor on the penalty that its noise required."""

    changes: tuple[tuple[Change, ...] | None, ...]
    factors: dict[str, float]


def find(
    history: History,
    series: Sequence[Series],
    *,
    alpha: float = 0.05,
    known: Mapping[str, float] | None = None,
) -> FoundChanges:
    """Find the changes of these series.

    alpha: 1 - confidence of each change's own interval. The series of a machine share one noise
    calibration (`flashbench.stats.segments.calibrate`), or have the factor `known` from others of
    the machine; all together pay for their number.
    """
    values = [_log_speedups(one) for one in series]
    long_enough = [index for index, one in enumerate(values) if len(one) >= FEWEST]
    among = len(long_enough)
    found = segment_all([values[index] for index in long_enough], alpha=alpha, among=among)
    segmented: dict[int, Segmentation] = dict(zip(long_enough, found, strict=True))
    machines: dict[str, list[int]] = defaultdict(list)
    for index in segmented:
        machines[series[index].machine].append(index)
    factors = {}
    for machine, indices in machines.items():
        if known is not None:
            factors[machine] = known.get(machine, 1.0)
        else:
            factors[machine] = calibrate([segmented[index].residuals for index in indices])
        if factors[machine] > 1:
            # A series without steps has none at a higher penalty either.
            changed = [index for index in indices if segmented[index].steps]
            again = segment_all(
                [values[index] for index in changed],
                factor=factors[machine],
                alpha=alpha,
                among=among,
            )
            segmented |= zip(changed, again, strict=True)
    gaps = _by_machine(history.gaps, (one.name for one in history.machines))
    changes = tuple(
        tuple(_change(step, one, gaps.get(one.machine, {})) for step in segmented[index].steps)
        if index in segmented
        else None
        for index, one in enumerate(series)
    )
    return FoundChanges(changes, factors)


def _log_speedups(series: Series) -> FloatArray:
    """(points,): log speed-ups, which grow as values fall; ratios to SDPA where there are any."""
    return -np.log(series.judged.value)


def _by_machine(gaps: Iterable[Gap], machines: Iterable[str]) -> dict[str, dict[int, Gap]]:
    """Gaps by machine and commit; a machine's own gap precedes one of all machines."""
    listed = list(gaps)
    return {
        name: {gap.commit: gap for gap in listed if not gap.machine}
        | {gap.commit: gap for gap in listed if gap.machine == name}
        for name in machines
    }


def _change(step: Step, series: Series, gaps: dict[int, Gap]) -> Change:
    places = series.judged.commit
    first, last = int(places[step.first - 1]) + 1, int(places[step.last])
    measured = set(places[step.first : step.last + 1].tolist())
    missing = [commit for commit in range(first, last + 1) if commit not in measured]
    return Change(
        commit=int(places[step.at]),
        first=first,
        last=last,
        speedup=step.shift,
        before=step.before,
        after=step.after,
        provisional=step.provisional,
        hidden=tuple(gaps[commit] for commit in missing if commit in gaps),
        unmeasured=len(missing),
    )
