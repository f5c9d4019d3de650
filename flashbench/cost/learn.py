"""Learn from a measured run what the next one will take."""

import math
from collections.abc import Collection, Sequence
from statistics import fmean, median

import numpy as np

from flashbench.case import Case
from flashbench.cost.decision import spread_factor
from flashbench.cost.estimate import Work, total_seconds
from flashbench.cost.known import Experience
from flashbench.cost.store import (
    CandidateCost,
    CaseCost,
    CostRecords,
    MachineCosts,
    StartCost,
    start_key,
    touch,
    update,
)
from flashbench.errors import FlashbenchError
from flashbench.launches import LaunchData, baseline_index, launch_data, own_candidates
from flashbench.runfile import Launch, Result, RunFile
from flashbench.stats.sequential import spread

_OLD = 0.75  # weight of all that is known, against one more launch
_MOST_LAUNCHES = (
    40  # most launches that the spread so far counts for, against those of the latest run
)


def learn(run: RunFile, before: Collection[int]) -> None:
    """Add a run's launches to the costs of its machine. before: indices of launches already added.
    Never raises if it cannot save."""
    launches = [one for one in run.launches if one.index not in before and one.case_seconds]
    if not launches:
        return
    device = run.cases[0].device

    def add(costs: CostRecords) -> None:
        machine = costs.of(run.environment, device)
        _compare(machine, device, run, launches)
        count = processes_of(run)
        if starts := [one.start_seconds for one in launches if one.start_seconds]:
            specs = [candidate.spec for candidate in run.candidates]
            # A fork starts in a moment; a fresh worker's later starts are like its first.
            first, later = starts[:1], starts[1:]
            if run.settings.workers == "fresh":
                first, later = starts, []
            for key in {str(count), start_key(count, specs)}:
                machine.starts[key] = _start(machine.starts.get(key), first, later)
        for case in run.cases:
            _learn_case(machine, case, run, launches, count)
        _learn_spreads(machine, run, {launch.index for launch in launches})
        touch(machine, len(launches))

    update(add)


def _start(known: StartCost | None, first: list[float], later: list[float]) -> StartCost:
    if known is None:
        return StartCost(fmean(first), fmean(later) if later else None, min(first))
    return StartCost(
        first=_blend(known.first, first),
        later=_blend(known.later, later) if later else known.later,
        shortest=min(known.shortest, *first),
    )


def _learn_spreads(machine: MachineCosts, run: RunFile, new: Collection[int]) -> None:
    """Learn the spread between these launches: of the log-ratio of a comparison's two builds, else
    of each candidate's log-time, or of its ratio to SDPA, if that varies less."""
    try:
        data = launch_data(run)
    except FlashbenchError:  # no times at all
        return
    chosen = [place for place, launch in enumerate(run.launches) if launch.index in new]
    factor = 1.0 if run.pair is None else spread_factor(processes_of(run))
    kinds = [[data.speedups(*pair)[:, chosen] / factor for pair in _pairs(data)]]
    if run.pair is None:
        kinds.append([data.log_median[one][:, chosen] for one, _ in _pairs(data)])
    for place, case in enumerate(run.cases):
        known = machine.cases.get(case.id)
        found = []
        for several in kinds:
            rows = [row[~np.isnan(row)] for row in (values[place] for values in several)]
            found += [median(map(spread, rows))] if rows and min(map(len, rows)) >= 2 else []
        if known is None or not found:
            continue
        count = max(map(len, rows))
        total = known.spread_launches + count
        square = known.spread_launches * known.spread**2 + count * min(found) ** 2
        known.spread = math.sqrt(square / total)
        known.spread_launches = min(_MOST_LAUNCHES, total)


def _pairs(data: LaunchData) -> list[tuple[int, int]]:
    if (pair := data.run.pair) is not None:
        return [(data.candidate_index[pair.new], data.candidate_index[pair.old])]
    own = ((place, candidate.name) for place, candidate in own_candidates(data.run))
    found = ((place, baseline_index(data.run, name)) for place, name in own)
    return [(place, base) for place, base in found if base is not None]


def processes_of(run: RunFile) -> int:
    """The number of worker processes per launch."""
    own = sum(not candidate.baseline for candidate in run.candidates)
    return max(1, own) if run.settings.processes == "paired" else 1


def _compare(machine: MachineCosts, device: str, run: RunFile, launches: Sequence[Launch]) -> None:
    """Record the ratio of actual to estimated seconds of whole launches."""
    whole = [one for one in launches if one.complete and not one.lost_seconds and one.start_seconds]
    experience = Experience(device, machine)
    estimated = 0.0
    levels = set()
    fresh = run.settings.workers == "fresh"
    for launch in whole:
        cases = [case for case in run.cases if case.id in launch.case_seconds]
        metrics = {t.metric for r in launch.results for t in r.timings}
        work = Work(
            cases=cases,
            candidates=[candidate.spec for candidate in run.candidates],
            launches=1,
            samples=run.settings.samples,
            min_sample_seconds=run.settings.min_sample_seconds,
            metrics=max(1, len(metrics)),
            processes=processes_of(run),
            first=launch.index == 0,
            fresh=int(fresh or launch is launches[0]),
        )
        estimated += total_seconds(work, experience)
        levels.add(experience.level_of(work))
    if estimated and len(levels) == 1:
        ratio = sum(one.device_seconds for one in whole) / estimated
        machine.ratios.setdefault(levels.pop(), []).append(round(ratio, 4))


def _learn_case(
    machine: MachineCosts, case: Case, run: RunFile, launches: Sequence[Launch], processes: int
) -> None:
    there = [one for one in launches if case.id in one.case_seconds]
    later = [one for one in there if one.index] or there
    spec_of = {candidate.name: candidate.spec for candidate in run.candidates}
    known = machine.cases.get(case.id)
    if known is not None and not set(spec_of.values()) - set(known.candidates):
        later = [one for one in later if one.index]  # the first launch, which checks more, is not
    if not later:
        return
    machine.cases.pop(case.id, None)  # move to the end: unused cases are dropped first
    results = {
        id(one): [result for result in one.results if result.case == case.id] for one in there
    }
    around = [
        one.case_seconds[case.id] - sum(result.device_seconds for result in results[id(one)])
        for one in later
    ]
    cost = CaseCost(
        every=_blend(known.every if known else None, [max(0.0, one) / processes for one in around]),
        first=known.first if known else 0.0,
        candidates=known.candidates if known else {},
        spread=known.spread if known else 0.0,
        spread_launches=known.spread_launches if known else 0,
    )
    for first in (one for one in there if one.index == 0):
        more = first.inspect_seconds.get(case.id, 0.0)
        if len(there) > 1:
            more += first.case_seconds[case.id] - fmean(one.case_seconds[case.id] for one in later)
        cost.first = _blend(known.first if known else None, [max(0.0, more) / processes])
    for spec in dict.fromkeys(spec_of.values()):
        found = [
            _of_result(result, run.settings.min_sample_seconds)
            for one in later
            for result in results[id(one)]
            if spec_of[result.candidate] == spec and result.status == "ok" and result.timings
        ]
        if found:
            cost.candidates[spec] = _mean(found, cost.candidates.get(spec))
    machine.cases[case.id] = cost


def _of_result(result: Result, min_sample: float) -> CandidateCost:
    timings = [timing for timing in result.timings if timing.seconds]
    call = fmean(fmean(timing.seconds) for timing in timings) if timings else min_sample
    sample = fmean(timing.calls * fmean(timing.seconds) for timing in timings) if timings else call
    sampled = sum(timing.calls * sum(timing.seconds) for timing in timings)
    turns = sum(len(set(timing.block)) or 1 for timing in timings) or 1
    return CandidateCost(
        call=call,
        fixed=max(0.0, result.device_seconds - result.sampling_seconds),
        turn=max(0.0, result.sampling_seconds - sampled) / turns,
        stretch=sample / max(call, min_sample),
    )


def _mean(found: Sequence[CandidateCost], known: CandidateCost | None) -> CandidateCost:
    values = {
        name: _blend(getattr(known, name) if known else None, [getattr(one, name) for one in found])
        for name in CandidateCost.__struct_fields__
    }
    return CandidateCost(**values)


def _blend(known: float | None, new: Sequence[float]) -> float:
    """The mean, weighted towards the latest launches."""
    old = 0.0 if known is None else _OLD ** len(new)
    return old * (known or 0.0) + (1 - old) * fmean(new)
