"""git as it is read here: argument lists, no locks taken, nothing written, nothing fetched.

A repository may be anybody's, and git runs commands that its configuration names. Of those that
could be reached by reading, hooks, fsmonitor and pagers are turned off here, and signatures and
diffs are not asked for. A partial clone would fetch what it lacks, by a transport of its
configuration: no transport is allowed. One thing does run: `status` passes a changed file through
the clean filter that the repository has for it (Git LFS is one), as `git status` of the user does.
"""

import os
import subprocess
from pathlib import Path

from flashbench.errors import InvalidInputError, NotMeasuredError, is_out_of_files

_QUIET = (
    "--no-pager",
    "--no-optional-locks",
    # A commit is the content of its hash, whatever replace refs there are.
    "--no-replace-objects",
    "--literal-pathspecs",
    *("-c", "core.fsmonitor=false"),
    *("-c", f"core.hooksPath={os.devnull}"),
    *("-c", "log.showSignature=false"),
    *("-c", "i18n.logOutputEncoding=UTF-8"),
)
_ENVIRONMENT = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "",  # none: older versions do not know the line above
}
# Inside of a hook git names its repository by these, whatever directory it is then called for.
_REPOSITORY = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")


class GitError(NotMeasuredError):
    """git did not do it; the message is its own line. is_no: it ended with 1 and without a
    word, which of some commands is an answer."""

    def __init__(self, message: str, *, is_no: bool = False) -> None:
        super().__init__(message)
        self.is_no = is_no


def start(
    repository: Path, *arguments: str, stderr: int = subprocess.PIPE, index: Path | None = None
) -> "subprocess.Popen[bytes]":
    """Start a git command that leaves no trace in `repository`, with pipes.

    index: a file in the place of the repository's index. Raises NotMeasuredError when there is no
    git, or it cannot be started.
    """
    environment = {name: os.environ[name] for name in os.environ if name not in _REPOSITORY}
    if index is not None:
        environment["GIT_INDEX_FILE"] = str(index)
    try:
        return subprocess.Popen(
            ["git", "-C", str(repository), *_QUIET, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=environment | _ENVIRONMENT,
        )
    except FileNotFoundError:
        raise NotMeasuredError("git is not on PATH; install it") from None
    except OSError as error:
        if is_out_of_files(error):
            raise
        raise NotMeasuredError(f"git cannot be started: {error.strerror}") from None


def ask(repository: Path, *arguments: str, sent: bytes = b"", index: Path | None = None) -> bytes:
    """What git prints. sent: what it reads. Raises GitError with its words when it fails."""
    with start(repository, *arguments, index=index) as process:
        printed, complaint = process.communicate(sent)
    if process.returncode:
        said = _said(repository, complaint.decode(errors="replace"))
        is_no = process.returncode == 1 and not said
        raise GitError(said or f"git {arguments[0]} ended with {process.returncode}", is_no=is_no)
    return printed


def listed(repository: Path, *arguments: str) -> list[str]:
    """What a command with -z lists, as names of files. Raises GitError."""
    return [os.fsdecode(name) for name in ask(repository, *arguments).split(b"\0") if name]


def _said(repository: Path, complaint: str) -> str:
    """The line of what git complains of that says why."""
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    # The second line alone where git is ended by the end of the fetch that was refused.
    if any("promisor remote" in line or line.startswith("fatal: transport ") for line in lines):
        return f"objects are missing; {how_to_fetch(repository)}"
    why = next((line for line in lines if line.startswith(("fatal:", "error:"))), "")
    fix = next((line for line in lines if line.startswith("git config --global --add safe")), "")
    return "; ".join(filter(None, (why or "".join(lines[:1]), fix and f"if you trust it: {fix}")))


def how_to_fetch(repository: Path) -> str:
    """What to do about an object that is not here. Nothing is fetched unless somebody asks."""
    try:
        ask(repository, "config", "--get-regexp", r"^remote\..*\.promisor$", "true")
    except GitError:
        return "`git fsck` says what is damaged, `git fetch` may help"
    return "this is a partial clone; fetch the rest with: git fetch --refetch --no-filter"


def root_of(directory: Path) -> Path:
    """The root of the working tree that `directory` lies in; InvalidInputError without one."""
    try:
        root = ask(directory, "rev-parse", "--show-toplevel")
    except GitError as error:
        raise InvalidInputError(
            f"{directory}: not in a git working tree that can be read ({error}); "
            "revisions come from git"
        ) from None
    return Path(os.fsdecode(root.removesuffix(b"\n"))).resolve()
