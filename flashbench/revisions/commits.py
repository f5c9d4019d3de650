"""The commits of a range, in order, read from git alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flashbench.damaged_files import damage
from flashbench.errors import InvalidInputError
from flashbench.inputs import read_input
from flashbench.revisions import git
from flashbench.revisions.revision import WORKTREE, Revision, resolve

# Whatever the user's configuration says: no colours, signatures, notes or mail maps.
_LOG = ("log", "-z", "--no-color", "--no-show-signature", "--no-notes", "--no-mailmap", "-s")
# All but the body have no line breaks of their own.
_FORMAT = "--format=%H%n%P%n%ct%n%an%n%s%n%b"
_LIST_BYTES = 2**27
_DIGITS = 19  # of a date, which git passes on at any length


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit. parents: full hashes, even outside a range or axis; author, subject, body:
    untrusted text; merged: hashes it brought in from another branch, if only first parents are
    followed."""

    id: str
    parents: tuple[str, ...]
    time: int  # the committer's, seconds since 1970; 0 if missing
    author: str
    subject: str
    merged: tuple[str, ...] = ()
    body: str = ""  # of the message, below the subject

    @property
    def revision(self) -> Revision:
        return Revision(self.id, self.id)


def log(repository: Path, *arguments: str, sent: bytes = b"") -> list[Commit]:
    """The commits that `git log` of these arguments lists, in its order. Raises GitError."""
    listed = git.ask(repository, *_LOG, "--encoding=UTF-8", _FORMAT, *arguments, sent=sent)
    found = []
    for record in filter(None, listed.split(b"\0")):
        name, parents, time, author, text = record.decode(errors="replace").split("\n", 4)
        subject, _, body = text.partition("\n")
        parts = tuple(parents.split())
        found.append(Commit(name, parts, seconds_of(time), author, subject, body=body.strip("\n")))
    return found


def seconds_of(date: str) -> int:
    """git's %ct or %at as a number; 0 for a missing or impossible date."""
    return int(date) if date.isdecimal() and len(date) < _DIGITS else 0


def commits_between(
    repository: Path, old: str | None, new: str, *, first_parent: bool = False
) -> list[Commit]:
    """The commits in `new` but not in `old`, parents before children.

    old, new: full hashes; old None: from the beginning. first_parent: follow only the first parent
    of merges.
    """
    order = ["--date-order", "--reverse", *(["--first-parent"] if first_parent else [])]
    return log(repository, *order, new, *([f"^{old}"] if old else []), "--")


def known_commits(repository: Path, ids: list[str]) -> list[Commit]:
    """These commits, oldest first and parents before children, whatever their dates; commits
    missing from the repository are left out."""
    asked = "".join(f"{commit}\n" for commit in ids).encode()
    listed = git.ask(
        repository, "cat-file", "--batch-check=%(objectname) %(objecttype)", sent=asked
    )
    there = [line.split()[0] for line in listed.splitlines() if line.endswith(b" commit")]
    if not there:
        return []
    sent = b"".join(name + b"\n" for name in there)
    return _parents_first(log(repository, "--no-walk=sorted", "--reverse", "--stdin", sent=sent))


def _parents_first(commits: list[Commit]) -> list[Commit]:
    """In the given order, but none before its parents: a rebase makes many in one second."""
    waiting = {commit.id: commit for commit in commits}
    ordered = []
    for commit in commits:
        stack = [commit]
        while stack:
            before = [waiting[parent] for parent in stack[-1].parents if parent in waiting]
            if before:
                stack += before
            elif (done := waiting.pop(stack.pop().id, None)) is not None:
                ordered.append(done)
    return ordered


def commits_of(repository: Path, text: str, *, first_parent: bool = False) -> list[Revision]:
    """The commits of `A..B`, `A..`, `..B`, a revision, `.` or WORKTREE, parents before children.

    A range leaves A out, as git does. Raises InvalidInputError for what git does not know, and for
    an empty range.
    """
    if text == ".":
        return [resolve(repository, WORKTREE)]
    if ".." not in text:
        return [resolve(repository, text)]
    ends = text.split("..")
    if len(ends) != 2 or text == ".." or ends[1].startswith("."):
        raise InvalidInputError(f"invalid range {text[:100]!r}; write A..B")
    old, new = (resolve(repository, end or "HEAD") for end in ends)
    if old.worktree or new.worktree:
        raise InvalidInputError(f"range {text[:100]!r}: the working tree is in no range; name `.`")
    found = commits_between(repository, old.commit, new.commit, first_parent=first_parent)
    if not found:
        older, newer = (end or "HEAD" for end in ends)
        raise InvalidInputError(
            f"range {text[:100]!r} holds no commit: {newer} has nothing that {older} has not; "
            "write OLD..NEW"
        )
    return [commit.revision for commit in found]


def merge_base(repository: Path, one: str, other: str) -> str:
    """The best common ancestor of two commits, "" if they have none. Raises GitError."""
    try:
        return git.ask(repository, "merge-base", one, other).decode().strip()
    except git.GitError as error:
        if error.is_no:
            return ""
        raise  # it cannot tell, as where the repository lacks a commit


def commits_named(
    repository: Path, texts: Sequence[str], listed: Path | None = None
) -> list[Revision]:
    """Each commit once, in the order given. texts: names and ranges; listed: a file with more, one
    a line."""
    texts = [*texts, *(_lines(listed) if listed else [])]
    if not texts:
        raise InvalidInputError("which commits? name some, a range A..B, or a file with --list")
    found = [one for text in texts for one in commits_of(repository, text)]
    if any(one.worktree for one in found):
        raise InvalidInputError("the working tree cannot be in a history; name commits")
    return list({one.commit: one for one in found}.values())


def _lines(path: Path) -> list[str]:
    try:
        lines = read_input(path, _LIST_BYTES, "a list of commits").decode().splitlines()
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{path}: cannot be read: {damage(error)}") from None
    return [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]
