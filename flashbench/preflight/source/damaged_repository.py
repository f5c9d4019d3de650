"""A damaged repository: what is broken, read from its files, and a command that mends it."""

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from flashbench.preflight.finding import CannotCheck, Finding
from flashbench.preflight.source.tree import SourceTree
from flashbench.pyproject import up_to_repository
from flashbench.revisions import git

_HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_URL = re.compile(r"(?m)^\s*url\s*=\s*(\S+)")
# Writes what the working tree still has; git finds unchanged objects by their content, and leaves
# those that a crash has emptied.
_WRITE_OBJECTS = (
    "find .git/objects -type f -empty -delete && "
    "git ls-files -z | xargs -0 git hash-object -w -- && git write-tree"
)


def damaged_repository(tree: SourceTree) -> Iterator[Finding]:
    """Report objects and files that git lacks: the repository cannot be cloned."""
    if tree.tracked is None and not tree.damaged:
        raise CannotCheck(f"git cannot say what it has: {tree.without_git}")
    if tree.damaged:
        around = (one for one in up_to_repository(tree.root) if os.path.lexists(one / ".git"))
        root = next(around, tree.root)
        found, fix = _cause(root / ".git", tree.damaged)
        if root != tree.root:
            fix = f"cd {shlex.quote(os.path.relpath(root, tree.root))} && {fix}"
        yield Finding(".git", found, fix)


def _cause(place: Path, said: str) -> tuple[str, str]:
    """What is wrong, and the command that mends it, in the folder of the working tree."""
    if (
        said.startswith("the index") and not place.is_dir()
    ):  # of a linked working tree or a submodule
        return said, 'rm -f "$(git rev-parse --git-path index)" && git reset'
    if not place.is_dir():
        target = _text(place).removeprefix("gitdir:").strip()
        return f"names {target or 'nothing'}, which is no repository", _begin_again(place)
    if "config" in said:
        fix = "mv .git/config .git/config.damaged && git init  # then git remote add"
        return said, fix
    if not any((place / "objects").glob("*/*")):
        return "has lost all its objects", _begin_again(place)
    if not (place / "refs").is_dir():
        return "has no folder refs", _set_branch(place, "mkdir -p .git/refs/heads && ")
    head = _text(place / "HEAD")
    if not re.fullmatch(rf"ref: refs/\S+|{_HASH.pattern}", head):
        branch = _last_branch(place)
        fix = f"echo 'ref: refs/heads/{branch}' > .git/HEAD"
        return "HEAD names no branch and no commit", fix
    if "index" in said:
        return said, "rm -f .git/index && git reset"
    if "commit" in said:
        return said, _set_branch(place, "")
    return said, f"{_WRITE_OBJECTS}  # if a file has changed since: git fetch --refetch"


def _set_branch(place: Path, first: str) -> str:
    """Set the branch to the last commit that its log has and git can read."""
    head = _text(place / "HEAD").removeprefix("ref: ") or "refs/heads/main"
    known = [one for one in _HASH.findall(_text(place / "logs" / "HEAD")) if set(one) != {"0"}]
    there = (one for one in reversed(known) if _is_there(place, one))
    commit = next(there, "")
    if not commit:
        return _begin_again(place)
    loose = f"rm -f .git/{shlex.quote(head)} && " if head.startswith("refs/") else ""
    return f"{first}{loose}git update-ref {shlex.quote(head)} {commit}"


def _is_there(place: Path, commit: str) -> bool:
    """Whether the objects have a commit, perhaps in a pack."""
    loose = place / "objects" / commit[:2] / commit[2:]
    if loose.exists():
        return loose.stat().st_size > 0
    try:
        git.ask(place.parent, "cat-file", "-e", commit)
    except git.GitError:  # without refs, git says nothing of packs
        return not (place / "refs").is_dir() and any((place / "objects/pack").glob("*.pack"))
    return True


def _last_branch(place: Path) -> str:
    """The branch of the last checkout, else any existing branch."""
    moves = re.findall(r"checkout: moving from \S+ to (\S+)", _text(place / "logs" / "HEAD"))
    heads = [path.relative_to(place / "refs/heads") for path in (place / "refs/heads").rglob("*")]
    names = [one.as_posix() for one in heads if (place / "refs/heads" / one).is_file()]
    names += re.findall(r"(?m) refs/heads/(\S+)$", _text(place / "packed-refs"))
    return next((one for one in (*reversed(moves), "main", "master") if one in names), "main")


def _begin_again(place: Path) -> str:
    """A new clone's objects beside the files that are here; without a remote, a new history."""
    aside = shlex.quote(f"../{place.parent.resolve().name}.git-damaged")
    if (url := _URL.search(_text(place / "config"))) is not None:
        clone = f"git clone -q --no-checkout {shlex.quote(url[1])} {aside}-new"
        return f"{clone} && mv .git {aside} && mv {aside}-new/.git .git && git reset -q"
    again = "git init -q && git add . && git commit -qm 'Begin again'"
    return f"mv .git {aside} && {again}  # or clone it again, where it came from"


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
