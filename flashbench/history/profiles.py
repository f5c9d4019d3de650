"""Profiles in the history: one file per commit, case and candidate, with the raw report beside it.

They are in `.asv/flashbench/MACHINE/profiles/`, or inside another results folder, as records are.
"""

import re
import shutil
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from flashbench import locks
from flashbench import machine as machine_profile
from flashbench.candidates import OUR_CALLABLE, OURS, name_of
from flashbench.errors import InvalidInputError, NotMeasuredError
from flashbench.history import machines, names
from flashbench.history.commit_record import machine_path, path_of
from flashbench.history.owners import owners
from flashbench.profile import model
from flashbench.profile.differences import differences
from flashbench.profile.model import CaseProfile, Subject, save
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
    """Store each candidate's profile at its commit, replacing an earlier one, and the peak rates.

    file: the profile, with its raw reports beside it. Raises InvalidInputError if a candidate
    belongs to no commit, NotMeasuredError if there are no counters, and OSError.
    """
    name = str(file)
    profiled = [one for one in profile.subjects if not one.candidate.baseline]
    own = [one for one in profiled if _counted(one)]
    if not own:
        why = next((f"{one.candidate.name} has none: {one.without}" for one in profiled), "")
        raise NotMeasuredError(
            f"{name}: the history keeps counters, and {why or 'only the baseline was profiled'}"
        )
    found = owners([one.candidate for one in own], name, repository, commit)
    place = results / machines.choose(machine, profile.environment.hostname, name).name
    written = []
    with locks.exclusive(results / ".flashbench.lock"):
        machines.describe(place, profile.environment, name)
        if profile.ceilings is not None:
            machine_profile.keep(profile.ceilings, machine_path(results, place.name))
        folder = _folder(results, place.name)
        for revision, candidates in found.items():
            for one in own:
                if one.candidate in candidates:
                    written.append(_write(folder, revision, profile, one, file.parent))
    return written


def _counted(one: Subject) -> bool:
    return bool(one.counters) or any(kernel.counters for kernel in one.kernels)


def _write(folder: Path, commit: str, profile: CaseProfile, one: Subject, beside: Path) -> Path:
    """Write one candidate's part of a profile, and its raw report if there is one."""
    words = [commit, profile.case.id, *(["cold"] if profile.cold else []), series_of(one.candidate)]
    path = folder / f"{re.sub(r'[^A-Za-z0-9._+-]', '_', '-'.join(words))[:200]}.json"
    kept = msgspec.structs.replace(one)
    report = beside / Path(one.report).name  # the name alone: a file may claim any path
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
    """The candidate's name in the history; one built from a revision has the callable's name."""
    if candidate.build.revision:
        return OURS if candidate.spec == OUR_CALLABLE else name_of(candidate.spec)
    return names.series_of(candidate)


def read(results: Path, machine_names: Iterable[str], notes: list[str]) -> list[Kept]:
    """All profiles of these machines; an unreadable one becomes a note."""
    found = []
    for machine in machine_names:
        for path in sorted(_folder(results, machine).glob("*.json")):
            try:
                profile = model.read(path)
            except InvalidInputError as error:
                notes.append(str(error))
                continue
            found.append(Kept(machine, profile.subjects[0].candidate.build.commit, profile))
    return found


def changes(kept: Iterable[Kept], commits: Sequence[Commit], since: frozenset[int]) -> list[str]:
    """One line per difference between successive profiles of a case, latest first. since: leave out
    commits with a lower index."""
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
