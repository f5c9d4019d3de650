"""Gaps: commits without numbers, with the reason from a machine's records or the build cache."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from flashbench.errors import InvalidInputError
from flashbench.history import commit_record
from flashbench.history.model import Gap, Series


def find_gaps(
    results: Path,
    machines: Sequence[str],
    failed: Mapping[str, str],
    index: Mapping[str, int],
    series: Iterable[Series],
    notes: list[str],
) -> list[Gap]:
    """Commits that could not be built or measured, from asv's records and from `failed`.

    failed: as in `load`; no gap for a machine that measured the commit anyway. index: of each
    commit. notes: unreadable records are added.
    """
    found: dict[tuple[str, int], Gap] = {}
    for machine in machines:
        for path in commit_record.paths(results, machine):
            try:
                tried = commit_record.read(path).outcome
            except InvalidInputError as error:
                notes.append(str(error))
                continue
            place = index.get(tried.commit)
            if place is not None and tried.failure:
                found[machine, place] = Gap(place, machine, tried.status, tried.reason)
    texts = {index[commit]: text for commit, text in failed.items() if commit in index}
    measured = _measured(series, texts)
    for place, text in texts.items():
        status, _, reason = text.partition(": ")
        gap = Gap(place, "", status, reason)
        without = [machine for machine in machines if (machine, place) not in measured]
        if len(without) == len(machines):
            found["", place] = gap
        else:
            for machine in without:
                found.setdefault((machine, place), replace(gap, machine=machine))
    return _without_repeats(found.values())


def _without_repeats(gaps: Iterable[Gap]) -> list[Gap]:
    """Drop a machine's gap if all machines have it, but keep the longer reason: the build cache
    lists only first lines."""
    kept: dict[tuple[int, str, str], Gap] = {}
    for gap in sorted(
        gaps, key=lambda gap: (gap.commit, gap.machine)
    ):  # gaps of all machines first
        everywhere = (gap.commit, "", gap.status)
        if everywhere not in kept:
            kept[gap.commit, gap.machine, gap.status] = gap
        elif len(gap.reason) > len(kept[everywhere].reason):
            kept[everywhere] = replace(kept[everywhere], reason=gap.reason)
    return list(kept.values())


def _measured(series: Iterable[Series], places: Collection[int]) -> set[tuple[str, int]]:
    """(machine, commit) of these commits that have a number other than SDPA's."""
    if not places:
        return set()
    return {
        (one.machine, place)
        for one in series
        if not one.baseline
        for place in one.points.commit.tolist()
        if place in places
    }
