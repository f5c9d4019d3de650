"""Compute a commit's verdicts from asv's results if it has no run file.

Our own benchmarks have one sample per launch, which is what a verdict needs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from flashbench import defaults
from flashbench import machine as machine_profile
from flashbench.figures.roofline import RooflinePoint, data_sheet, roofline
from flashbench.figures.speedups import Judged, against, by_shape
from flashbench.history import commit_record, names
from flashbench.history.asv_row import AsvCell
from flashbench.history.folder import cells_at
from flashbench.history.model import History, Machine, Series
from flashbench.metric import DEFAULT_METRIC
from flashbench.other_tools.benchmarks import (
    SECONDS,
    BenchmarkSet,
    BenchmarkTimes,
    Launches,
    impossible,
)
from flashbench.other_tools.judge import judge_alone
from flashbench.run_validation import possible_peaks
from flashbench.runfile import Ceilings
from flashbench.site.case_names import known_case
from flashbench.site.content import Latest
from flashbench.views import other_tools as view


@dataclass(frozen=True, slots=True)
class Place:
    """Where the newest numbers are. commit: an index into the history."""

    commit: int
    environment: str


def _is_shown(one: Series, machine: str, device: str) -> bool:
    return (
        one.machine == machine
        and one.ratio is not None
        and one.benchmark == str(names.Name(device, DEFAULT_METRIC[device], names.SECONDS))
    )


def newest(history: History, machine: str, device: str) -> Place | None:
    """The newest commit that a machine and device measured beside SDPA."""
    places = [
        Place(int(one.ratio.commit[-1]), one.environment)
        for one in history.series
        if _is_shown(one, machine, device) and one.ratio is not None and len(one.ratio)
    ]
    return max(places, key=lambda place: place.commit, default=None)


def from_results(
    history: History,
    machine: Machine,
    device: str,
    place: Place,
    results: Path,
    peaks: Sequence[Ceilings] = (),
) -> Latest | None:
    """The verdicts from the samples in asv's result file; None if it has too little. peaks:
    measured rates of the machine, those that count first."""
    commit = history.commits[place.commit]
    kept = cells_at(results / machine.name, commit.id, place.environment)
    metric = DEFAULT_METRIC[device]
    times, ratios = (
        kept.get(str(names.Name(device, metric, quantity)), {})
        for quantity in (names.SECONDS, names.RATIO)
    )
    series = []
    for key, cell in times.items():
        case, candidate = (text.strip("'\"") for text in key)
        series.append(
            BenchmarkTimes(
                f"{case} {candidate}",
                times=_launches(cell),
                case=case,
                candidate=candidate,
                metric=metric,
                speedups=_speedups(ratios.get(key)),
            )
        )
    processor = machine.gpu if device == "cuda" else machine.cpu
    count = max((len(one.times) for one in series), default=0)
    one = BenchmarkSet(
        commit.id, "asv", tuple(series), count, machine=machine.name, commit=commit.id
    )
    judged = judge_alone(one, tolerance=defaults.TOLERANCE, alpha=defaults.ALPHA)
    if judged is None:
        return None
    found, timed = [], []
    for match, (comparison, verdict) in zip(judged.matches, judged.report.judged, strict=True):
        known, shift = known_case(match.name), comparison.shift
        if known is not None and shift is not None and match.b is not None and len(match.b.times):
            found.append(Judged(known, comparison, verdict, shift))
            seconds = float(np.median(match.b.times.values))
            timed.append(RooflinePoint(known, comparison.candidate, seconds))
    figures = [by_shape(found, against(judged.report))] if found else []
    roofs = [*peaks, *data_sheet(device, processor)]
    roofs = [one for one in roofs if (one.device, one.name) == (device, processor)]
    if roofs and timed:
        candidates = tuple(dict.fromkeys(one.candidate for one in timed))
        figures.append(roofline(timed, candidates, {device: roofs[0]}, {device: processor}))
    table = view.document(judged)
    return Latest(machine.name, device, processor or device, place.commit, table, tuple(figures))


def measured_roofs(results: Path, machine: str) -> list[Ceilings]:
    """The peak rates of a machine that the history keeps, the latest first. Raises
    InvalidInputError."""
    kept = machine_profile.read(commit_record.machine_path(results, machine)).ceilings
    return [one for one in reversed(kept) if possible_peaks(one)]


def _launches(cell: AsvCell) -> Launches:
    """The samples, one per launch; empty if any is not a time."""
    samples = cell.get("samples") or []
    values = np.array([value for value in samples if isinstance(value, float)])
    if not len(values) or any(impossible(SECONDS, one) for one in values):
        return Launches()
    return Launches(np.arange(len(values), dtype=np.intp), values)


def _speedups(cell: AsvCell | None) -> Launches:
    samples = (cell or {}).get("samples") or []
    values = np.array([value for value in samples if isinstance(value, float) and value > 0])
    return Launches(np.arange(len(values), dtype=np.intp), -np.log(values))
