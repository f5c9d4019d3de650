"""Attach the default baseline, and the ratio to it, to each series of a kernel."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from flashbench.baseline_names import DEFAULT_BASELINES
from flashbench.history import names
from flashbench.history.model import Points, Series
from flashbench.other_tools.benchmarks import SECONDS


def with_controls(series: list[Series]) -> list[Series]:
    """Attach `control` and `ratio` to each candidate's series; the ratios leave the list."""
    places = {_place(one): one for one in series}
    used: set[int] = set()
    made = []
    for one in series:
        timed = one.unit == SECONDS and one.case and not one.baseline
        control = _default(one, places) if timed else None
        if control is not None:
            measured = places.get(_place(one)._replace(benchmark=_ratio_of(one.benchmark)))
            if measured is not None:
                used.add(id(measured))
            ratio = measured.points if measured else _of_medians(one.points, control.points)
            added = replace(one, control=control.points, ratio=ratio, of_medians=measured is None)
            made.append((one, added))
        else:
            made.append((one, one))
    return [after for before, after in made if id(before) not in used]


def _default(one: Series, places: "dict[_Place, Series]") -> Series | None:
    """The default baseline of the case's operation, on the same case."""
    found = (places.get(_place(one)._replace(candidate=name)) for name in DEFAULT_BASELINES)
    return next(filter(None, found), None)


class _Place(NamedTuple):
    machine: str
    environment: str
    benchmark: str
    case: str
    candidate: str


def _place(series: Series) -> _Place:
    return _Place(
        series.machine, series.environment, series.benchmark, series.case, series.candidate
    )


def _ratio_of(benchmark: str) -> str:
    """The benchmark with the ratios of a benchmark with times; "" if it is not ours."""
    ours = names.OURS.get(benchmark)
    return str(ours._replace(quantity=names.RATIO)) if ours else ""


def _of_medians(points: Points, control: Points) -> Points:
    """The ratio of medians at commits that have both; unpaired, so without an interval."""
    commit, mine, theirs = np.intersect1d(points.commit, control.commit, return_indices=True)
    unknown = np.full(len(commit), np.nan)
    return Points(
        commit,
        points.value[mine] / control.value[theirs],
        unknown,
        unknown,
        unknown,
        unknown,
        np.minimum(points.launches[mine], control.launches[theirs]),
        unknown,
        unknown,
    )
