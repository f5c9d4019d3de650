"""Join the run files of shards, and split a run file into them.

The unit is a case in a launch: its candidates were measured side by side, so they come from one
part, together or not at all.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from flashbench.case import Case
from flashbench.errors import InvalidInputError
from flashbench.measuring.identity import SAME
from flashbench.measuring.remaining import unfinished_launches
from flashbench.measuring.retries import UNFINISHED
from flashbench.runfile import Costs, Environment, Launch, Result, RunFile, RunSettings
from flashbench.shard import Shard, cases_of_shard

# Run file fields that `_difference` checks itself, or that parts may have of their own. All others
# must be equal, so a field added later is kept or refused, never dropped.
_COMPARED = {"flashbench", "settings", "environment", "candidates", "cases", "pair"}
_OWN_FIELDS = {"created", "command", "hourly_rate", "launches", "costs"}
# Settings that may differ between the parts of one run.
_OWN_SETTINGS = {"shard", "budget_seconds", "earlier"}


def merge(parts: Sequence[tuple[str, RunFile]], command: Sequence[str] = ()) -> RunFile:
    """One run file with the results of all parts, in the order of the grid.

    parts: (name for messages, run). command: recorded in the result if the parts differ. Device
    seconds add up; the device's state before and after, memory and system are kept if all parts
    agree; the hosts' names are listed. A launch is complete if every case of the grid was finished
    in it. Raises InvalidInputError, with one line on the difference, for parts of different plans,
    machines or builds, and for a case of a launch that is in two parts.
    """
    if not parts:
        raise InvalidInputError("no run file to merge; name the files of `run --shard`")
    first_name, first = next((part for part in parts if part[1].launches), parts[0])
    parts = [(name, _of_machine(run, first)) for name, run in parts]
    for name, run in parts:
        if what := _difference(first, run):
            raise InvalidInputError(f"{name} is not of the same run as {first_name}: {what}")
    runs = [run for _, run in parts]
    budgets = {run.settings.budget_seconds for run in runs}
    rates = {(run.hourly_rate, run.costs.currency) for run in runs}
    merged = msgspec.structs.replace(  # fields not named here are equal in all parts
        first,
        created=min(run.created for run in runs),
        command=first.command if all(r.command == first.command for r in runs) else list(command),
        environment=_environment([run.environment for run in runs]),
        settings=msgspec.structs.replace(
            first.settings,
            shard="",
            budget_seconds=first.settings.budget_seconds if len(budgets) == 1 else None,
            earlier=max((run.settings.earlier for run in runs), key=len),
        ),
        hourly_rate=first.hourly_rate if len(rates) == 1 else None,
        costs=total_costs([run.costs for run in runs]),
    )
    indices = sorted({launch.index for run in runs for launch in run.launches})
    shares = [_cases_of(name, run) for name, run in parts]
    merged.launches = [_join_launch(merged, parts, shares, index) for index in indices]
    return merged


def _of_machine(run: RunFile, first: RunFile) -> RunFile:
    """A part. One without a launch ran nowhere: it gets the machine of the first."""
    if run.launches:
        return run
    named = ("environment", "candidates", "ceilings")
    return msgspec.structs.replace(run, **{name: getattr(first, name) for name in named})


def lost(known: RunFile, merged: RunFile) -> int:
    """How many results of a run file `merged` lacks, not counting those never reached."""
    there = {
        (launch.index, result.case, result.candidate): result
        for launch in merged.launches
        for result in launch.results
    }
    return sum(
        result.status not in UNFINISHED
        and there.get((launch.index, result.case, result.candidate)) != result
        for launch in known.launches
        for result in launch.results
    )


def split(run: RunFile, shards: Sequence[Shard]) -> list[RunFile]:
    """The parts that merge back into `run`, each as `run --shard` would have left it.

    A part's launch is complete if the shard's cases were finished, whatever the others. The seconds
    of a launch cannot be divided: the first part gets them. Raises InvalidInputError for more parts
    than cases.
    """
    parts = []
    candidates = {candidate.name for candidate in run.candidates}
    for index, shard in enumerate(shards, start=1):
        mine = cases_of_shard(run.cases, str(shard))
        ids = {case.id for case in mine}
        launches = [
            msgspec.structs.replace(
                launch,
                results=(kept := [r for r in launch.results if r.case in ids]),
                complete=launch.complete or _finished(mine, kept, candidates) == ids,
                **_seconds_of_part(launch, ids, first=index == 1),
            )
            for launch in run.launches
        ]
        settings = msgspec.structs.replace(run.settings, shard=str(shard))
        costs = run.costs if index == 1 else _without_seconds(run.costs)
        parts.append(
            msgspec.structs.replace(run, settings=settings, launches=launches, costs=costs)
        )
    return parts


def _seconds_of_part(launch: Launch, ids: set[str], *, first: bool) -> dict[str, Any]:
    whole = ("device_seconds", "start_seconds", "lost_seconds")
    by_case = ("case_seconds", "inspect_seconds")
    return {name: getattr(launch, name) if first else 0.0 for name in whole} | {
        name: {case: s for case, s in getattr(launch, name).items() if case in ids}
        for name in by_case
    }


def _without_seconds(costs: Costs) -> Costs:
    return Costs(currency=costs.currency, price=costs.price)


def total_costs(parts: Sequence[Costs]) -> Costs:
    """Seconds add up; the price is kept if all agree."""
    return Costs(
        build_seconds=sum(one.build_seconds for one in parts),
        lost_seconds=sum(one.lost_seconds for one in parts),
        saved_seconds=sum(one.saved_seconds for one in parts),
        rented_seconds=sum(one.rented_seconds for one in parts),
        currency=parts[0].currency if len({one.currency for one in parts}) == 1 else "",
        price=parts[0].price if len({one.price for one in parts}) == 1 else "",
    )


def warnings(parts: Sequence[tuple[str, RunFile]], merged: RunFile) -> list[str]:
    """What the merged file lacks: shards, cases, launches; one line each."""
    lines = []
    shards = [Shard.parse(run.settings.shard) for _, run in parts if run.settings.shard]
    counts = {shard.count for shard in shards}
    if len(counts) == 1 and all(run.settings.shard for _, run in parts):
        count = counts.pop()
        lacking = sorted(set(range(1, count + 1)) - {shard.index for shard in shards})
        if lacking:
            names = ", ".join(f"{index}/{count}" for index in lacking[:8])
            more = f" and {len(lacking) - 8} more" if len(lacking) > 8 else ""
            lines.append(f"shard {names}{more} is not among the parts")
    for name, run in parts:
        if left := unfinished_launches(run):
            lines.append(f"{name} is unfinished: {left} of {run.settings.launches} launches")
    measured = {result.case for launch in merged.launches for result in launch.results}
    if empty := [case.id for case in merged.cases if case.id not in measured]:
        lines.append(
            f"{len(empty)} of {len(merged.cases)} cases have no result ({empty[0]} is the first): "
            "`compare` will report them as NOT MEASURED"
        )
    return lines


def _cases_of(name: str, run: RunFile) -> list[Case]:
    try:
        return cases_of_shard(run.cases, run.settings.shard)
    except InvalidInputError as error:
        raise InvalidInputError(f"{name}: damaged run file: {error}") from None


def _difference(first: RunFile, other: RunFile) -> str | None:
    """The difference that makes two files parts of different runs; None if they match."""
    if first.flashbench != other.flashbench:
        return _difference_text("flashbench", first.flashbench, other.flashbench)
    for name in RunSettings.__struct_fields__:
        then, now = getattr(first.settings, name), getattr(other.settings, name)
        if name not in _OWN_SETTINGS and then != now:
            return _difference_text(f"the setting {name.replace('_', ' ')}", then, now)
    for name in SAME:
        then, now = getattr(first.environment, name), getattr(other.environment, name)
        if then != now:
            return _difference_text(name.replace("_", " "), then or "none", now or "none")
    names = [candidate.name for candidate in first.candidates]
    if names != [candidate.name for candidate in other.candidates]:
        return "it has other candidates"
    for one, another in zip(first.candidates, other.candidates, strict=True):
        if one.build != another.build:
            return f"it has another build of candidate {one.name}"
        if one != another:
            return f"its candidate {one.name} is another function"
    if first.cases != other.cases:
        return "it has another grid of cases"
    if first.pair != other.pair:
        return "it is of another comparison of two builds, or of none"
    rest = set(RunFile.__struct_fields__) - _COMPARED - _OWN_FIELDS
    for name in sorted(rest):
        then, now = getattr(first, name), getattr(other, name)
        if then != now:
            return _difference_text(name.replace("_", " "), then, now)
    return None


def _difference_text(what: str, then: object, now: object) -> str:
    return f"{what} is {now}, not {then}"


def _environment(all_: list[Environment]) -> Environment:
    """The environment on which all parts agree, and the names of their hosts."""
    kept = {
        name: getattr(all_[0], name)
        for name in Environment.__struct_fields__
        if all(getattr(one, name) == getattr(all_[0], name) for one in all_)
    }
    hosts = dict.fromkeys(host for one in all_ for host in one.hostname.split(", ") if host)
    return Environment(**kept | {"hostname": ", ".join(hosts)})


def _join_launch(
    merged: RunFile,
    parts: Sequence[tuple[str, RunFile]],
    shares: Sequence[Sequence[Case]],
    index: int,
) -> Launch:
    source: dict[str, int] = {}  # the part that each case came from
    results: list[Result] = []
    launches: list[Launch] = []
    finished: set[str] = set()
    candidates = {candidate.name for candidate in merged.candidates}
    for number, ((name, run), mine) in enumerate(zip(parts, shares, strict=True)):
        for launch in run.launches:
            if launch.index != index:
                continue
            if launches and launch.seed != launches[0].seed:
                raise InvalidInputError(f"{name}: launch {index} has another seed")
            for result in launch.results:
                if (other := source.setdefault(result.case, number)) != number:
                    raise InvalidInputError(
                        f"{result.case} in launch {index} is both in {parts[other][0]} and in "
                        f"{name}; name each part once"
                    )
            launches.append(launch)
            results += launch.results
            finished |= (
                {case.id for case in mine}
                if launch.complete
                else _finished(mine, launch.results, candidates)
            )
    place = {case.id: number for number, case in enumerate(merged.cases)}
    one = launches[0]
    return Launch(
        index=index,
        seed=one.seed,
        complete=len(finished) == len(place),
        started=min(launch.started for launch in launches),
        device_seconds=sum(launch.device_seconds for launch in launches),
        start_seconds=sum(launch.start_seconds for launch in launches),
        lost_seconds=sum(launch.lost_seconds for launch in launches),
        case_seconds=_joined([launch.case_seconds for launch in launches]),
        inspect_seconds=_joined([launch.inspect_seconds for launch in launches]),
        before=one.before if all(launch.before == one.before for launch in launches) else None,
        after=one.after if all(launch.after == one.after for launch in launches) else None,
        results=sorted(results, key=lambda result: place[result.case]),
    )


def _joined(parts: Sequence[dict[str, float]]) -> dict[str, float]:
    return {case: seconds for part in parts for case, seconds in part.items()}


def _finished(cases: Sequence[Case], results: Sequence[Result], candidates: set[str]) -> set[str]:
    """Ids of `cases` on which every candidate has a final result."""
    done = {(r.case, r.candidate) for r in results if r.status not in UNFINISHED}
    return {case.id for case in cases if all((case.id, name) in done for name in candidates)}
