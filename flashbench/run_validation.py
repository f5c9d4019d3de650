"""What the types of a run file alone cannot say: names that resolve, and possible numbers."""

from typing import TYPE_CHECKING

from flashbench.baseline_names import baseline_beside, is_baseline_name
from flashbench.errors import InvalidInputError

if TYPE_CHECKING:
    from flashbench.runfile import Ceilings, Launch, Result, RunFile, RunSettings

# A time outside a picosecond to thirty years means damage.
MIN_SECONDS, MAX_SECONDS = 1e-12, 1e9
MAX_COUNT = 2**53  # dimensions, bytes, block numbers: the integers that a float holds
MAX_LAUNCHES = 10**6
_MAX_RATE = 1e30  # a second


def possible_peaks(peaks: "Ceilings") -> bool:
    """Whether all rates of a device are possible numbers."""
    rates = [*peaks.flops.values(), peaks.bytes_per_second]
    rates += [peaks.cached_bytes_per_second] if peaks.cached_bytes_per_second is not None else []
    return all(0 < rate < _MAX_RATE for rate in rates)


def check_references(run: "RunFile", name: str) -> None:
    """Check all but timings."""
    cases = {case.id for case in run.cases}
    candidates = {candidate.name for candidate in run.candidates}
    if len(cases) != len(run.cases) or len(candidates) != len(run.candidates):
        raise _damaged(name, "a case or a candidate is listed twice")
    for candidate in run.candidates:
        if is_baseline_name(candidate.name.partition("/")[0]) and not (
            candidate.baseline
            and candidate.name == baseline_beside(candidate.spec, candidate.beside)
        ):
            problem = f"{candidate.name!r} is a baseline's name, but {candidate.spec!r} is none"
            raise _damaged(name, problem)
    own = {candidate.name for candidate in run.candidates if not candidate.baseline}
    if not {candidate.beside for candidate in run.candidates} <= {"", *own}:
        raise _damaged(name, "a baseline is beside a candidate that is not listed")
    if any(max(case.sizes.values(), default=0) >= MAX_COUNT for case in run.cases):
        raise _damaged(name, "a dimension is not a possible number")
    if len({case.operation for case in run.cases}) > 1:
        raise _damaged(name, "its cases are of several operations")
    if len({launch.index for launch in run.launches}) != len(run.launches):
        raise _damaged(name, "two launches have the same index")
    for launch in run.launches:
        _check_seconds(launch, name)
    costs = run.costs
    taken = (costs.build_seconds, costs.lost_seconds, costs.saved_seconds, costs.rented_seconds)
    for seconds in taken:
        if not 0 <= seconds < MAX_SECONDS:
            raise _damaged(name, "its costs are not possible times")
    _check_settings(run.settings, name)
    if run.hourly_rate is not None and not 0 <= run.hourly_rate < MAX_SECONDS:
        raise _damaged(name, "hourly_rate is not a possible price")
    if not all(map(possible_peaks, run.ceilings)):
        raise _damaged(name, "its ceilings are not possible rates")
    if run.pair is not None and not (
        {run.pair.old, run.pair.new} <= candidates
        and run.pair.old != run.pair.new
        and 0 < run.pair.tolerance < 1
        and 0 < run.pair.confidence < 1
    ):
        raise _damaged(name, "its pair names no two of its candidates, or impossible numbers")
    for launch in run.launches:
        seen: set[tuple[str, str]] = set()
        for result in launch.results:
            if result.case not in cases or result.candidate not in candidates:
                raise bad_result(
                    launch, result, name, "a result for something the file does not list"
                )
            if (result.case, result.candidate) in seen:
                raise bad_result(launch, result, name, "two results")
            seen.add((result.case, result.candidate))
            if not 0 <= (result.peak_memory_bytes or 0) < MAX_COUNT:
                raise bad_result(launch, result, name, "peak_memory_bytes is not a possible number")
            if not 0 <= result.sampling_seconds <= result.device_seconds < MAX_SECONDS:
                raise bad_result(launch, result, name, "device_seconds is not a possible time")


def _check_seconds(launch: "Launch", name: str) -> None:
    possible = {
        "device_seconds": [launch.device_seconds],
        "start_seconds": [launch.start_seconds],
        "lost_seconds": [launch.lost_seconds],
        "case_seconds": launch.case_seconds.values(),
        "inspect_seconds": launch.inspect_seconds.values(),
    }
    for what, seconds in possible.items():
        if not all(0 <= value < MAX_SECONDS for value in seconds):
            raise _damaged(name, f"a launch's {what} is not a possible time")


def _check_settings(settings: "RunSettings", name: str) -> None:
    """Check numbers that a resumed run would count to, or wait for."""
    budget = settings.budget_seconds
    possible = {
        "launches": 0 <= settings.launches <= MAX_LAUNCHES,
        "samples": 0 <= settings.samples < MAX_COUNT,
        "seed": 0 <= settings.seed <= MAX_COUNT,
        "min_sample_seconds": 0 <= settings.min_sample_seconds < MAX_SECONDS,
        "timeout_seconds": 0 <= settings.timeout_seconds < MAX_SECONDS,
        "budget_seconds": budget is None or 0 <= budget < MAX_SECONDS,
    }
    for what, holds in possible.items():
        if not holds:
            raise _damaged(name, f"the setting {what} is not a possible number")


def check_lists(launch: "Launch", result: "Result", name: str) -> None:
    """Check that each metric appears once, with one block number per sample."""
    several = len(result.timings) > 1
    if several and len({timing.metric for timing in result.timings}) != len(result.timings):
        raise bad_result(launch, result, name, "a metric is listed twice")
    for timing in result.timings:
        if timing.block and len(timing.block) != len(timing.seconds):
            problem = f"{timing.metric} lacks one block number per sample"
            raise bad_result(launch, result, name, problem)


def check_times(launch: "Launch", result: "Result", name: str) -> None:
    """Check that every sample is a possible time."""
    for timing in result.timings:
        seconds = timing.seconds
        if seconds and not possible_times(min(seconds), max(seconds)):
            problem = f"a {timing.metric} sample is not a possible time"
            raise bad_result(launch, result, name, problem)


def possible_times(least: float, most: float) -> bool:
    """Check all samples at once: much faster than one by one, and JSON has no NaN to slip
    through."""
    return MIN_SECONDS <= least <= most <= MAX_SECONDS


def bad_result(launch: "Launch", result: "Result", name: str, problem: str) -> InvalidInputError:
    """The error for one result of the file `name`."""
    where = f"launch {launch.index}, {result.candidate!r} on {result.case!r}"
    return _damaged(name, f"{where}: {problem}")


def _damaged(name: str, what: str) -> InvalidInputError:
    return InvalidInputError(f"{name}: damaged run file: {what}")
