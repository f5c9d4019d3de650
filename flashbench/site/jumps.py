"""What looks like a change and is not judged as one: jumps, with too few commits on one side, and
series that ended below their best."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from flashbench import defaults
from flashbench.history.model import Change, Points
from flashbench.stats.optimal_partition import SHORTEST

_FALL = 0.05  # of the best speed, at least


@dataclass(frozen=True, slots=True)
class Jump:
    """commit: the first measured after it; speedup: its speed over that of the one measured before,
    above 1 is faster; recent: so few commits follow that it may have just begun."""

    commit: int
    speedup: float
    recent: bool


def jumps(points: Points, changes: Sequence[Change]) -> tuple[Jump, ...]:
    """Neighbours whose intervals do not overlap, by at least `compare`'s tolerance, with fewer
    points than a level needs between them and an end of the series or a change.

    points: times, or ratios of them, lower is faster; without intervals there are none.
    """
    count = len(points)
    if count < 2:
        return ()
    apart = (points.low[1:] > points.high[:-1]) | (points.high[1:] < points.low[:-1])
    speed = points.value[:-1] / points.value[1:]
    sizes = np.abs(np.log(speed))
    found = 1 + np.flatnonzero(apart & (sizes >= np.log1p(defaults.TOLERANCE)))
    known = np.searchsorted(points.commit, [change.commit for change in changes])
    away = np.abs(found[:, None] - np.array([0, count, *known])[None])
    near = (away < SHORTEST).any(axis=1) & (away > 0).all(axis=1)
    return tuple(
        Jump(int(points.commit[at]), float(speed[at - 1]), bool(count - at < SHORTEST))
        for at in found[near]
    )


def newly_slower(points: Points, found: Sequence[Jump]) -> Jump | None:
    """The first of the recent jumps, with the speed of the newest point over that before it, if
    that is still slower; else None."""
    recent = [one for one in found if one.recent]
    if not recent:
        return None
    before = int(np.searchsorted(points.commit, recent[0].commit)) - 1
    if points.low[-1] <= points.high[before]:
        return None
    return Jump(recent[0].commit, float(points.value[before] / points.value[-1]), recent=True)


def below_best(points: Points) -> Jump | None:
    """The fall from the best level to the newest one; None if it is below 5 %, or if any commit of
    the newest level is as fast as one of the best, or the newest commit nearer to that one. commit:
    the first from which on all are nearer to the newest level.

    A level has as many commits as a change needs. This describes and does not decide: slow drift
    is not a change that counts, and picking the best level of many is not corrected for.
    """
    value, count = points.value, len(points)
    if count < 2 * SHORTEST:
        return None
    windows = np.lib.stride_tricks.sliding_window_view(value, SHORTEST)
    slowest = windows.max(axis=1)
    best = int(np.argmin(slowest[: count - 2 * SHORTEST + 1]))
    before, newest = np.median(windows[[best, -1]], axis=1)
    speed = float(before / newest)
    if windows[-1].min() <= slowest[best] or speed > 1 - _FALL:
        return None
    first = 1 + int(np.flatnonzero(value <= np.sqrt(before * newest))[-1])
    if first == count:
        return None
    return Jump(int(points.commit[first]), speed, recent=False)
