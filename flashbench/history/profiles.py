"""Profiles in the history: one file a commit, case and candidate, the raw report beside it.

They lie in `.asv/flashbench/MACHINE/profiles/`, or in the results folder as records do.
"""

import re
import shutil
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from flashbench import locks
from flashbench.candidates import OUR_CALLABLE, OURS, name_of
from flashbench.errors import InvalidInputError, NotMeasuredError
from flashbench.history import machines, names
from flashbench.history.owners import owners
from flashbench.history.record import path_of
from flashbench.profile.differences import differences
from flashbench.profile.model import CaseProfile, Subject, load, save
from flashbench.revisions.commits import Commit
from flashbench.runfile import Candidate

_SHOWN = 8  # digits of a commit
_NOTHING_NEW = ("", "same time")


@dataclass(frozen=True, slots=True)
class Kept:
    """One profile of the history."""

    machine: str
    commit: str
    profile: CaseProfile

    @property
    def subject(self) -> Subject:
        return self.profile.subjects[0]


def keep(
    profile: CaseProfile,
    file: Path,
    results: Path,
    repository: Path,
    *,
    machine: str | None = None,
    commit: str | None = None,
) -> list[Path]:
    """Keep each candidate of a profile at its commit, in place of an earlier profile of it.

    file: where the profile and its raw reports lie. Raises InvalidInputError for what belongs to no
    commit, NotMeasuredError where it has no counters, OSError.
    """
    name = str(file)
    own = [one for one in profile.subjects if not one.candidate.baseline and _counted(one)]
    if not own:
        raise NotMeasuredError(f"{name}: no counters of any candidate, so there is nothing to keep")
    found = owners([one.candidate for one in own], name, repository, commit)
    place = results / machines.choose(machine, profile.environment.hostname, name).name
    written = []
    with locks.exclusive(results / ".flashbench.lock"):
        machines.describe(place, profile.environment, name)
        folder = _folder(results, place.name)
        for revision, candidates in found.items():
            for one in own:
                if one.candidate in candidates:
                    written.append(_write(folder, revision, profile, one, file.parent))
    return written


def _counted(one: Subject) -> bool:
    return bool(one.counters) or any(kernel.counters for kernel in one.kernels)


def _write(folder: Path, commit: str, profile: CaseProfile, one: Subject, beside: Path) -> Path:
    """One candidate's part of a profile, and its raw report where that is there."""
    words = [commit, profile.case.id, *(["cold"] if profile.cold else []), series_of(one.candidate)]
    path = folder / f"{re.sub(r'[^A-Za-z0-9._+-]', '_', '-'.join(words))[:200]}.json"
    kept = msgspec.structs.replace(one)
    report = beside / Path(one.report).name  # a name, wherever the file says that it lies
    if one.report and report.is_file() and not report.is_symlink():
        kept.report = path.with_suffix(".ncu-rep").name
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(report, folder / kept.report)
    kept.candidate = msgspec.structs.replace(
        one.candidate, build=msgspec.structs.replace(one.candidate.build, commit=commit)
    )
    save(msgspec.structs.replace(profile, subjects=[kept]), path)
    return path


def series_of(candidate: Candidate) -> str:
    """The candidate in the history. One that was built from a revision is called by that."""
    if candidate.build.revision:
        return OURS if candidate.spec == OUR_CALLABLE else name_of(candidate.spec)
    return names.series_of(candidate)


def read(results: Path, machine_names: Iterable[str], notes: list[str]) -> list[Kept]:
    """All profiles of these machines; what cannot be read is a note."""
    found = []
    for machine in machine_names:
        for path in sorted(_folder(results, machine).glob("*.json")):
            try:
                profile = load(path)
            except InvalidInputError as error:
                notes.append(str(error))
                continue
            found.append(Kept(machine, profile.subjects[0].candidate.build.commit, profile))
    return found


def changes(kept: Iterable[Kept], commits: Sequence[Commit], since: frozenset[int]) -> list[str]:
    """What differs between two profiles of a case that follow each other in the history, a line
    each, the latest first. since: places of commits before the range, which are left out."""
    place = {commit.id: index for index, commit in enumerate(commits)}
    lines = []
    for old, new in in_order(kept, place):
        if old is None or place[new.commit] in since:
            continue
        said = differences(old.subject, new.subject, new.profile.metric)
        if said not in _NOTHING_NEW:
            candidate = series_of(new.subject.candidate)
            pair = f"{new.commit[:_SHOWN]} against {old.commit[:_SHOWN]}"
            line = f"{new.profile.case.id} {candidate} on {new.machine}: {pair}: {said}"
            lines.append((place[new.commit], line))
    return [line for _, line in sorted(lines, key=lambda pair: -pair[0])]


def in_order(kept: Iterable[Kept], place: Mapping[str, int]) -> list[tuple[Kept | None, Kept]]:
    """Each profile of a commit in `place`, with the one before it of the same machine, case and
    candidate; None for the first."""
    series: dict[tuple[object, ...], list[Kept]] = defaultdict(list)
    for one in kept:
        if one.commit in place:
            profile = one.profile
            key = one.machine, profile.case.id, profile.cold, series_of(one.subject.candidate)
            series[key].append(one)
    pairs: list[tuple[Kept | None, Kept]] = []
    for ones in series.values():
        ones.sort(key=lambda one: place[one.commit])
        pairs += zip([None, *ones], ones, strict=False)
    return pairs


def _folder(results: Path, machine: str) -> Path:
    return path_of(results, machine, "", "").parent / "profiles"
