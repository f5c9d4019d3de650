"""Cut series where that saves the most squares, exactly, for many series at once.

By dynamic programming over the last change (Jackson et al., An algorithm for optimal partitioning
of data on an interval, IEEE Signal Processing Letters 12 (2005), p. 105), in overlapping windows.
"""

import numpy as np

from flashbench.arrays import BoolArray, FloatArray, IntArray

SHORTEST = 4  # points of a level, at least
_WINDOW = 256  # points that are segmented at once: time grows with the square
_STRIDE = _WINDOW // 2  # to the next window, if this one has no cut
_PART_OF_ONE = 1 / np.arange(_WINDOW, 0.0, -1.0)[:, None]  # 1 / points of a level, longest first
_SHORT = 32  # points of levels that are looked at one by one to rule out a cut
_ROUNDING = 1e-6  # of sums, amply


def cuts_of(scaled: list[FloatArray], costs: list[float]) -> list[list[int]]:
    """The indices at which new levels begin, for each series. scaled: values in standard
    deviations; costs: of a change."""
    starts = _first_doubts(scaled, costs)
    cuts: list[list[int]] = [[] for _ in scaled]
    waiting = [one for one, start in enumerate(starts) if start < len(scaled[one])]
    while waiting:
        windows = [scaled[one][starts[one] : starts[one] + _WINDOW] for one in waiting]
        further = []
        for one, found in zip(
            waiting, windows_cuts(windows, [costs[i] for i in waiting]), strict=True
        ):
            start = starts[one]
            if start + _WINDOW >= len(scaled[one]):
                cuts[one] += [start + cut for cut in found]
                continue
            # What is near the end of the window is looked at again with what comes after it.
            settled = [start + cut for cut in found if cut <= 3 * _WINDOW // 4]
            cuts[one] += settled
            starts[one] = max(settled[-1] if settled else 0, start + _STRIDE)
            further.append(one)
        waiting = further
    return cuts


def _first_doubts(scaled: list[FloatArray], costs: list[float]) -> list[int]:
    """Where the first window begins that may have cuts, for each series; its length if none may,
    as in most of those without a change."""
    lengths = np.array([len(values) for values in scaled], dtype=np.int64)
    lasts = -(-(lengths - _WINDOW).clip(0) // _STRIDE) * _STRIDE  # where the last windows begin
    padded = np.zeros((len(scaled), lasts.max(initial=0) + _WINDOW))
    for row, values in zip(padded, scaled, strict=True):
        row[: len(values)] = values
    price, found = np.array(costs), lengths.copy()
    sums = np.zeros((_WINDOW + 1, len(scaled)))
    for start in range(lasts.max(initial=0), -1, -_STRIDE):
        windows = padded[:, start : start + _WINDOW]
        ends = (lengths - start).clip(0, _WINDOW)
        means = windows.sum(axis=1) / ends.clip(min=1)
        np.cumsum((windows - means[:, None]).T, axis=0, out=sums[1:])
        sums[1:][np.arange(1, _WINDOW + 1)[:, None] > ends] = 0
        found[(start <= lasts) & _may_have_cuts(sums, ends, price)] = start
    starts: list[int] = found.tolist()
    return starts


def windows_cuts(windows: list[FloatArray], costs: list[float]) -> list[list[int]]:
    """The segmentation of each window with the least squares plus `cost` per change, all at once.

    least[t] is the cost of the best segmentation of the first t points, minus the squares of these
    points, which all segmentations share.
    """
    count, most = len(windows), max(map(len, windows))
    sums = np.zeros((most + 1, count))
    for column, window in enumerate(windows):
        np.cumsum(window - window.mean(), out=sums[1 : len(window) + 1, column])
    price, ends = np.array(costs), np.array([len(window) for window in windows])
    made: list[list[int]] = [[] for _ in windows]
    doubtful = np.flatnonzero(_may_have_cuts(sums, ends, price))
    if not len(doubtful):
        return made
    sums, price = sums[:, doubtful], price[doubtful]
    least = np.full(sums.shape, np.inf)
    least[0] = 0
    space = np.empty(sums.shape)
    for end in range(SHORTEST, most + 1):
        begins = end - SHORTEST + 1  # of the last level: 0 to end - SHORTEST
        _with_last_level(sums, least, end, space[:begins]).min(axis=0, out=least[end])
        least[end] += price
    for column, number in enumerate(doubtful.tolist()):
        cuts = []
        own = np.s_[:, column : column + 1]
        end = len(windows[number])
        while end:
            begins = end - SHORTEST + 1
            end = int(_with_last_level(sums[own], least[own], end, space[:begins, :1]).argmin())
            cuts.append(end)
        made[number] = cuts[-2::-1]
    return made


def _may_have_cuts(sums: FloatArray, ends: IntArray, costs: FloatArray) -> BoolArray:
    """(windows,): False for windows that certainly have no cut, most of those without a change.

    What k cuts save is the sum of the levels' `sum**2 / points`. The first and the last level save
    at most what the best one at that end does, each of the others at most as much as the best of
    all, which is known for the short ones and bounded by the range of the sums for the others.
    """
    places = np.arange(1, len(sums))[:, None]
    squares = sums[1:] ** 2
    left = squares / places
    with np.errstate(divide="ignore", invalid="ignore"):
        right = np.where(places < ends, squares / (ends - places), 0)
    inner = (sums.max(axis=0) - sums.min(axis=0)) ** 2 / (_SHORT + 1)
    space = np.empty(sums.shape)
    for points in range(SHORTEST, min(_SHORT, len(sums) - 1) + 1):
        moved = np.subtract(sums[points:], sums[:-points], out=space[points:])
        most = np.maximum(moved.max(axis=0), -moved.min(axis=0))
        np.maximum(inner, most**2 / points, out=inner)
    outer = left.max(axis=0) + right.max(axis=0)
    saved = np.maximum(np.maximum((left + right).max(axis=0), (outer + inner) / 2), inner)
    possible: BoolArray = saved > (1 - _ROUNDING) * costs
    return possible


def _with_last_level(sums: FloatArray, least: FloatArray, end: int, made: FloatArray) -> FloatArray:
    """(begins, windows): the cost of the first `end` points if the last level begins at 0, 1..."""
    begins = len(made)
    np.subtract(sums[:begins], sums[end], out=made)
    np.multiply(made, made, out=made)
    np.multiply(made, _PART_OF_ONE[-end:][:begins], out=made)
    return np.subtract(least[:begins], made, out=made)
