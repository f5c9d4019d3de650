"""Revision: a commit verified by git, or the working tree."""

from dataclasses import dataclass
from pathlib import Path

from flashbench.errors import InvalidInputError
from flashbench.revisions import git

WORKTREE = "WORKTREE"
_SHOWN = 12  # digits of a commit
_QUOTED = 100  # characters of user input in messages
_LONGEST = 4096  # the system refuses arguments of 128 KiB


@dataclass(frozen=True)
class Revision:
    """A commit, or the working tree on top of one.

    text: the user's words. commit: the full hash; for the working tree HEAD's, or "" before the
    first commit.
    """

    text: str
    commit: str
    worktree: bool = False

    @property
    def label(self) -> str:
        """The user's words and the commit they name, for messages."""
        short = self.commit[:_SHOWN]
        if self.worktree:
            return f"the working tree (on {short})" if short else "the working tree"
        return short if self.commit.startswith(self.text) else f"{self.text} ({short})"


def resolve(repository: Path, text: str) -> Revision:
    """The commit that `text` names, or the working tree for the word WORKTREE.

    Raises InvalidInputError if it names no commit of this repository, or looks like an option.
    """
    if text == WORKTREE:
        return Revision(text, _commit(repository, "HEAD") or "", worktree=True)
    if not 0 < len(text) <= _LONGEST or text.startswith("-") or not text.isprintable():
        raise InvalidInputError(
            f"invalid revision {text[:_QUOTED]!r}; write a commit, branch, tag or {WORKTREE}"
        )
    commit = _commit(repository, text)
    if commit is None:
        fetch = "git fetch --unshallow" if is_shallow(repository) else "git fetch"
        raise InvalidInputError(
            f"revision {text[:_QUOTED]!r} is no commit of {repository}; see "
            f"`git log --oneline --all`, or `{fetch}`; {WORKTREE} is the working tree"
        )
    return Revision(text, commit)


def is_shallow(repository: Path) -> bool:
    """Whether the clone lacks older commits."""
    return git.ask(repository, "rev-parse", "--is-shallow-repository").strip() == b"true"


def _commit(repository: Path, text: str) -> str | None:
    arguments = ("rev-parse", "--verify", "--quiet", "--end-of-options", text + "^{commit}")
    try:
        commit = git.ask(repository, *arguments).decode().strip()
    except (git.GitError, UnicodeError):
        return None
    return commit if set(commit) <= set("0123456789abcdef") else None
