"""Profiles on a commit's page: the bottleneck, the floors, and the changes since the last one."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from flashbench.history.profiles import Kept, in_order, series_of
from flashbench.profile.bottleneck import find
from flashbench.profile.differences import differences
from flashbench.profile.floors import floors
from flashbench.revisions.commits import Commit
from flashbench.site.content import HASH, commit_page

_FLOORS = 3  # the largest of them


@dataclass(frozen=True, slots=True)
class Profiled:
    """A row of a commit's page. cold: measured with a cold cache; floors: largest first, each with
    its share of the time; before: the commit of the previous profile, "" for a case's first one,
    and page: that commit's page."""

    case: str
    cold: bool
    candidate: str
    machine: str
    bottleneck: str
    because: tuple[str, ...]
    floors: tuple[str, ...]
    before: str = ""
    page: str = ""
    changed: str = ""


def by_commit(kept: Sequence[Kept], commits: Sequence[Commit]) -> dict[int, list[Profiled]]:
    """The profiles of each commit, by its index."""
    place = {commit.id: index for index, commit in enumerate(commits)}
    found: dict[int, list[Profiled]] = defaultdict(list)
    for old, new in in_order(kept, place):
        found[place[new.commit]].append(_profiled(old, new))
    for rows in found.values():
        rows.sort(key=lambda row: (row.machine, row.case, row.cold, row.candidate))
    return dict(found)


def _profiled(old: Kept | None, new: Kept) -> Profiled:
    profile, subject = new.profile, new.subject
    bound = find(profile, subject)
    known = floors(profile.case, profile.ceilings, profile.metric) if profile.ceilings else []
    seconds = subject.seconds(profile.metric)
    least = []
    for floor in known[:_FLOORS]:
        share = f", {100 * floor.seconds / seconds:.0f} % of the time" if seconds else ""
        least.append(f"{floor.name} {floor.seconds * 1e6:.4g} us{share}")
    return Profiled(
        case=profile.case.id,
        cold=profile.cold,
        candidate=series_of(subject.candidate),
        machine=new.machine,
        bottleneck=bound.name,
        because=bound.because,
        floors=tuple(least),
        before=old.commit[:HASH] if old else "",
        page=commit_page(old.commit) if old else "",
        changed=differences(old.subject, subject, profile.metric) if old else "",
    )
