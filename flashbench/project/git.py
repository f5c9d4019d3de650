"""git as it is read here: argument lists, no locks taken, nothing written, no hook run.

One thing of the repository's own configuration does run: `status` passes a changed file through the
clean filter that it has there (Git LFS is one), as `git status` of the user does.
"""

import os
import subprocess
from pathlib import Path

from flashbench.errors import InvalidInputError, NotMeasuredError

# Without replacements: what a commit holds is what its name says, whoever has which refs.
_QUIET = (
    "--no-optional-locks",
    "--no-replace-objects",
    "--literal-pathspecs",
    "-c",
    "core.fsmonitor=false",
)


class GitError(NotMeasuredError):
    """git did not do it; the message is its own first line. is_no: it ended with 1 and without a
    word, which of some commands is an answer."""

    def __init__(self, message: str, *, is_no: bool = False) -> None:
        super().__init__(message)
        self.is_no = is_no


def command(repository: Path, *arguments: str) -> list[str]:
    """The argument list of a git command that leaves no trace in `repository`."""
    return ["git", "-C", str(repository), *_QUIET, *arguments]


def ask(repository: Path, *arguments: str, sent: bytes = b"") -> bytes:
    """What git prints. sent: what it reads. Raises GitError with its words when it fails."""
    try:
        done = subprocess.run(
            command(repository, *arguments),
            capture_output=True,
            input=sent,
            env=os.environ | {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"},
        )
    except OSError as error:
        raise NotMeasuredError(f"git cannot be run ({error}); install git") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        said = lines[0] if lines else f"git {arguments[0]} ended with {done.returncode}"
        raise GitError(said, is_no=done.returncode == 1 and not lines)
    return done.stdout


def root_of(directory: Path) -> Path:
    """The root of the working tree that `directory` lies in; InvalidInputError without one."""
    try:
        root = ask(directory, "rev-parse", "--show-toplevel")
    except GitError as error:
        raise InvalidInputError(
            f"{directory}: not in a git working tree ({error}); revisions come from git"
        ) from None
    return Path(os.fsdecode(root.removesuffix(b"\n"))).resolve()
