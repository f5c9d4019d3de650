"""Pack a job's sources into two files: commits as a git bundle, the working tree as a tar.

Only reads the user's repository: a temporary repository that borrows its objects holds the bundle's
refs.
"""

import hashlib
import os
import re
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

from flashbench.errors import InvalidInputError, NotMeasuredError
from flashbench.revisions import git
from flashbench.revisions.export import export
from flashbench.revisions.revision import WORKTREE, Revision, is_shallow, resolve

_TREE = ".tree"
# The name of a ref in a revision's text: `main` in main~3 and main^{commit}.
_NAME = re.compile(r"[^~^@:]+")
# Files that people keep beside their sources, and that no build needs.
_CREDENTIALS = re.compile(
    r"(^|/)(\.env[^/]*|\.netrc|\.pypirc|id_(rsa|dsa|ecdsa|ed25519)[^/]*|[^/]*\.(pem|key|p12|pfx)"
    r"|credentials[^/]*|\.(aws|ssh|azure|kube|gnupg)/.*)$",
    re.IGNORECASE,
)


def write_bundle(repository: Path, head: str, texts: Sequence[str], target: Path) -> None:
    """Write a bundle in which HEAD is `head` and each of `texts` names the same commit as here.

    texts: revisions, without WORKTREE. InvalidInputError if one names nothing here, or would mean
    nothing elsewhere (`main@{yesterday}`).
    """
    if is_shallow(repository):
        raise InvalidInputError(
            f"{repository}: a shallow clone cannot be sent; fetch the rest: git fetch --unshallow"
        )
    commits = {text: resolve(repository, text).commit for text in texts}
    with tempfile.TemporaryDirectory() as folder:
        beside = Path(folder) / "refs"
        git.ask(repository, "init", "-q", "--bare", str(beside))
        objects = git.ask(repository, "rev-parse", "--git-path", "objects").removesuffix(b"\n")
        place = (repository / os.fsdecode(objects)).resolve()
        (beside / "objects/info/alternates").write_bytes(os.fsencode(place) + b"\n")
        (beside / "HEAD").write_text(f"{head}\n")
        git.ask(beside, "update-ref", f"refs/flashbench/{head}", head)
        for text, commit in commits.items():
            for name, of in _refs(repository, text, commit).items():
                git.ask(beside, "update-ref", name, of)
        for text, commit in commits.items():
            if _commit(beside, text) != commit:
                raise InvalidInputError(
                    f"revision {text!r} means nothing in a copy of the repository; write {commit}"
                )
        try:
            git.ask(beside, "bundle", "create", "-q", str(target), "--all", "HEAD")
        except git.GitError as error:
            raise NotMeasuredError(f"the commits cannot be bundled: {error}") from None


def _refs(repository: Path, text: str, commit: str) -> dict[str, str]:
    """The refs that make a revision's text resolve to the same commit, and their commits."""
    found = {f"refs/flashbench/{commit}": commit}  # a commit that no ref below reaches
    for name in filter(None, [text, *_NAME.findall(text)[:1]]):
        try:
            full = git.ask(repository, "rev-parse", "--symbolic-full-name", name).decode().strip()
        except (git.GitError, UnicodeError):
            continue
        if full.startswith("refs/"):
            found[full] = git.ask(repository, "rev-parse", f"{full}").decode().strip()
    return found


def _commit(repository: Path, text: str) -> str:
    try:
        return resolve(repository, text).commit
    except InvalidInputError:
        return ""


def write_worktree(repository: Path, target: Path) -> str:
    """Write the working tree, without ignored files and flashbench's own, and return a hash of its
    content. If it equals HEAD, writes nothing and returns ""."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / _TREE
        if not export(repository, resolve(repository, WORKTREE), tree).dirty:
            return ""
        _refuse_credentials(repository, tree)
        with tarfile.open(target, "w") as tar:
            tar.add(tree, ".")
        return _content(tree)


def _refuse_credentials(repository: Path, tree: Path) -> None:
    """InvalidInputError if the tree has an untracked file that looks like credentials."""
    listed = git.ask(repository, "ls-files", "-z", "--others", "--exclude-standard", "--full-name")
    for name in map(os.fsdecode, filter(None, listed.split(b"\0"))):
        if _CREDENTIALS.search(name) and os.path.lexists(tree / name):
            raise InvalidInputError(
                f"{name}: looks like credentials, and would be sent with the working tree; "
                "add it to .gitignore"
            )


def _content(tree: Path) -> str:
    """The hash of all names and files."""
    found = hashlib.sha256()
    for path in sorted(tree.rglob("*")):
        if path.is_symlink():
            content = os.fsencode(path.readlink())
        else:
            content = path.read_bytes() if path.is_file() else b""
        name = os.fsencode(path.relative_to(tree))
        found.update(b"%d %d %b%b" % (len(name), len(content), name, content))
    return found.hexdigest()


def head_of(repository: Path) -> Revision:
    """The checked-out commit. InvalidInputError before the first one."""
    return resolve(repository, "HEAD")
