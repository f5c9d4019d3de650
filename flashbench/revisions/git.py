"""Read-only git: argument lists, no locks, no writes, no fetches.

A repository is untrusted, and git runs commands that its configuration names. Among those that
reading could reach, hooks, fsmonitor and pagers are disabled here, and signatures and diffs are not
requested. A partial clone would fetch missing objects by a transport of its configuration: no
transport is allowed. One thing does run: `status` passes a changed file through the repository's
clean filter for it (such as Git LFS), as the user's own `git status` does.
"""

import os
import subprocess
from pathlib import Path

from flashbench.errors import InvalidInputError, NotMeasuredError, is_out_of_files

_QUIET = (
    "--no-pager",
    "--no-optional-locks",
    # Ignore replace refs: a commit is the content of its hash.
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
    "GIT_ALLOW_PROTOCOL": "",  # none: for versions that lack the setting above
}
# Inside a hook these name the hook's repository, whatever directory git runs in.
_REPOSITORY = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")


class GitError(NotMeasuredError):
    """git failed; the message is its own line. is_no: it exited with 1 and no message, which is an
    answer from some commands."""

    def __init__(self, message: str, *, is_no: bool = False) -> None:
        super().__init__(message)
        self.is_no = is_no


def start(
    repository: Path, *arguments: str, stderr: int = subprocess.PIPE, index: Path | None = None
) -> "subprocess.Popen[bytes]":
    """Start a git command that leaves no trace in `repository`, with pipes.

    index: a file to use instead of the repository's index. Raises NotMeasuredError if there is no
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
    """git's output. sent: its input. Raises GitError with its message if it fails."""
    with start(repository, *arguments, index=index) as process:
        printed, complaint = process.communicate(sent)
    if process.returncode:
        reason = _reason(repository, complaint.decode(errors="replace"))
        is_no = process.returncode == 1 and not reason
        raise GitError(reason or f"git {arguments[0]} ended with {process.returncode}", is_no=is_no)
    return printed


def listed(repository: Path, *arguments: str) -> list[str]:
    """The file names listed by a command with -z. Raises GitError."""
    return [os.fsdecode(name) for name in ask(repository, *arguments).split(b"\0") if name]


def _reason(repository: Path, complaint: str) -> str:
    """The line of git's messages that gives the reason."""
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    # Only the second line if git died of the refused fetch.
    if any("promisor remote" in line or line.startswith("fatal: transport ") for line in lines):
        return f"objects are missing; {how_to_fetch(repository)}"
    why = next((line for line in lines if line.startswith(("fatal:", "error:"))), "")
    fix = next((line for line in lines if line.startswith("git config --global --add safe")), "")
    return "; ".join(filter(None, (why or "".join(lines[:1]), fix and f"if you trust it: {fix}")))


def how_to_fetch(repository: Path) -> str:
    """What to do about a missing object. Nothing is fetched without the user."""
    if is_partial(repository):
        return "this is a partial clone; fetch the rest with: git fetch --refetch --no-filter"
    return "`git fsck` shows what is damaged; `git fetch` may help"


def is_partial(repository: Path) -> bool:
    """Whether a remote promises the objects that are missing here."""
    try:
        ask(repository, "config", "--get-regexp", r"^remote\..*\.promisor$", "true")
    except GitError:
        return False
    return True


def root_of(directory: Path) -> Path:
    """The root of the working tree around `directory`; InvalidInputError without one."""
    try:
        root = ask(directory, "rev-parse", "--show-toplevel")
    except GitError as error:
        raise InvalidInputError(
            f"{directory}: not in a git working tree that can be read ({error}); "
            "revisions come from git"
        ) from None
    return Path(os.fsdecode(root.removesuffix(b"\n"))).resolve()
