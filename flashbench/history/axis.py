"""The commits of a repository in order: the axis of every series."""

from dataclasses import replace
from pathlib import Path

from flashbench.errors import InvalidInputError
from flashbench.revisions.commits import Commit, log
from flashbench.revisions.revision import WORKTREE, resolve


def axis(repository: Path, text: str = "HEAD", *, first_parent: bool = True) -> tuple[Commit, ...]:
    """Every commit up to the revision `text`, parents before children.

    first_parent: follow only the first parent of a merge; the others become `Commit.merged`.
    Raises InvalidInputError for a revision that git does not know.
    """
    revision = resolve(repository, text)
    if revision.worktree:
        raise InvalidInputError(f"{WORKTREE} is no commit, so it has no place in a history")
    commits = log(repository, "--topo-order", "--reverse", revision.commit, "--")
    return _along_first_parents(commits) if first_parent else tuple(commits)


def _along_first_parents(commits: list[Commit]) -> tuple[Commit, ...]:
    """commits: not empty, the tip last."""
    by_id = {commit.id: commit for commit in commits}
    line = [commits[-1]]
    while line[-1].parents and line[-1].parents[0] in by_id:
        line.append(by_id[line[-1].parents[0]])
    seen = {commit.id for commit in line}
    made = []
    for commit in reversed(line):
        merged = []
        waiting = list(commit.parents[1:])
        while waiting:
            one = waiting.pop()
            if one in by_id and one not in seen:
                seen.add(one)
                merged.append(one)
                waiting += by_id[one].parents
        made.append(replace(commit, merged=tuple(merged)))
    return tuple(made)
