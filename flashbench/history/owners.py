"""Find the commit to which each candidate of a run file belongs."""

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from flashbench.baseline_names import is_baseline_name
from flashbench.errors import InvalidInputError
from flashbench.history import names
from flashbench.revisions.revision import resolve
from flashbench.runfile import Candidate

_FULL_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")  # other names may change their meaning


def owners(
    candidates: Iterable[Candidate], name: str, repository: Path, commit: str | None
) -> dict[str, list[Candidate]]:
    """The candidates of each commit, without the baseline, which was measured beside all of them.

    name: of the file in messages. commit: the measured revision, if the file does not name it.
    Raises InvalidInputError for a candidate that belongs to no commit.
    """
    stated = _stated(repository, commit) if commit is not None else ""
    found: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        if candidate.baseline:
            continue
        build = candidate.build
        shown = f"{name}: {candidate.name!r}"
        if build.commit and not _FULL_HASH.fullmatch(build.commit):
            raise InvalidInputError(
                f"{shown} was built from {build.commit[:100]!r}, which is no full hash of a "
                "commit; measure again"
            )
        if build.dirty:
            raise InvalidInputError(
                f"{shown} was built with uncommitted changes, so its numbers belong to no commit; "
                "commit them and measure again"
            )
        if build.commit and stated not in ("", build.commit):
            raise InvalidInputError(
                f"{shown} was built from {build.commit[:12]}, not from {stated[:12]} (--commit)"
            )
        if not (build.commit or stated):
            raise InvalidInputError(f"{shown} names no commit; name it with --commit")
        found[resolve(repository, build.commit or stated).commit].append(candidate)
    if not found:
        raise InvalidInputError(f"{name}: has only baselines, which belong to no commit")
    for revision, mine in found.items():
        _require_own_names(mine, f"{name}: candidates of {revision[:12]}")
    return dict(found)


def _require_own_names(mine: list[Candidate], where: str) -> None:
    """Raise InvalidInputError if one would replace another, or the baseline."""
    kept: dict[str, str] = {}
    for candidate in mine:
        series = names.series_of(candidate)
        other = series if is_baseline_name(series) else kept.get(series)
        if other is not None:
            raise InvalidInputError(
                f"{where}: {candidate.name!r} and {other!r} would both be kept as {series!r}; "
                "give them different names"
            )
        kept[series] = candidate.name


def _stated(repository: Path, commit: str) -> str:
    revision = resolve(repository, commit)
    if revision.worktree:
        raise InvalidInputError("--commit: the working tree is no commit; name the one measured")
    return revision.commit
