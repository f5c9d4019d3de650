"""The question that builds or launches answer for each commit of a range."""

from dataclasses import dataclass
from typing import Literal

from flashbench.bisect.graph import CommitGraph, graph_of
from flashbench.builds import BuildStatus
from flashbench.errors import InvalidInputError
from flashbench.revisions import Built, Project, Revision, git, resolve
from flashbench.revisions.commits import Commit, commits_between, known_commits, merge_base
from flashbench.revisions.fingerprint import contents_of
from flashbench.revisions.ledger import Stage
from flashbench.revisions.revision import is_shallow

Purpose = Literal["build", "load", "correct", "speed"]

# Statuses that mean a commit does not load, or computes a wrong result: one that does not even
# build says nothing about that.
_NOT_LOADED: tuple[BuildStatus, ...] = ("undefined symbol", "wrong module name", "import error")
_NOT_BUILT: tuple[BuildStatus, ...] = (
    "missing header",
    "compile error",
    "link error",
    "build error",
)


@dataclass(frozen=True)
class Range:
    """The commits after a good one up to a bad one, the last. good_subject: the good one's subject,
    untrusted text."""

    project: Project
    good: Revision
    bad: Revision
    commits: tuple[Commit, ...]
    graph: CommitGraph
    first_parent: bool = False
    good_subject: str = ""

    def changes(self) -> list[bool]:
        """For each commit, whether it has anything built or imported that none of its parents
        has."""
        parents = slice(1) if self.first_parent else slice(None)
        return [
            all(self._of(commit.id) != self._of(one) for one in commit.parents[parents])
            for commit in self.commits
        ]

    def builds(self) -> int:
        """An upper bound on the number of different builds."""
        return len({sources for sources, _ in map(self._of, (one.id for one in self.commits))})

    def _of(self, commit: str) -> tuple[str, str]:
        """The fingerprints of sources and importable files; unique for an unreadable commit."""
        try:
            contents = contents_of(self.project, commit)
        except git.GitError:
            return commit, commit
        return contents.sources, contents.importable


def range_of(project: Project, good: str, bad: str, *, first_parent: bool = False) -> Range:
    """Raises InvalidInputError if one of them is not a commit, or good is not an ancestor of
    bad."""
    repository = project.repository
    ends = resolve(repository, good), resolve(repository, bad)
    for end in ends:
        if end.worktree:
            raise InvalidInputError(
                "the working tree is not a commit: commit it, or `flashbench compare` it with one"
            )
    old, new = ends
    if old.commit == new.commit:
        raise InvalidInputError(f"--good {good} and --bad {bad} are the same commit")
    base = merge_base(repository, old.commit, new.commit)
    if base != old.commit:
        fix = f"name their common ancestor, --good {base[:12]}"
        if base == new.commit:
            fix = "it is the newer of the two: swap them, or name an older one"
        elif not base:
            fix = "they have no commit in common"
            if is_shallow(repository):
                fix += " in this shallow clone: `git fetch --unshallow`"
        raise InvalidInputError(f"--good {good} is not an ancestor of --bad {bad}: {fix}")
    commits = commits_between(repository, old.commit, new.commit, first_parent=first_parent)
    subject = "".join(commit.subject for commit in known_commits(repository, [old.commit]))
    return Range(project, old, new, tuple(commits), graph_of(commits), first_parent, subject)


def works(built: Built, purpose: Stage, *, named: bool = False) -> bool | None:
    """Whether a prepared commit works; None: unknown, because it fails earlier, or nothing of it
    could be checked. named: a refused case that the user named means that it does not work."""
    if built.status == "built":
        return True
    if built.status == "unchecked":
        return False if named else None
    if not built.kept:  # lack of memory, disk or a tool, or unreadable: no answer
        return None
    if purpose == "build":
        return False
    if built.status in _NOT_BUILT or built.build.status == "timeout":
        return None
    if built.status in _NOT_LOADED or (purpose == "load" and built.status == "timeout"):
        return False if purpose == "load" else None
    return False
