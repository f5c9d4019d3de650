"""The exit codes, and the one exception that carries them to the user."""

import errno
import shlex
import sys
from enum import IntEnum


class Exit(IntEnum):
    """Exit codes of all commands. "Measured nothing" is never PASS or REGRESSION."""

    PASS = 0
    REGRESSION = 1
    USAGE = 2
    UNDECIDED = 3
    NOT_MEASURED = 4


class FlashbenchError(Exception):
    """An error for the user: one line saying what is wrong, where, and the fix."""

    exit_code = Exit.USAGE

    def __init__(self, message: str, exit_code: Exit | None = None) -> None:
        super().__init__(message)
        if exit_code is not None:
            self.exit_code = exit_code


class InvalidInputError(FlashbenchError):
    """An unusable flag, file or setting (exit code 2)."""


def missing_package(error: ModuleNotFoundError) -> str:
    """The line for the user that a package is not installed, with the fix; "" for a module of
    flashbench itself."""
    name = (error.name or "").partition(".")[0]
    if name in ("", "flashbench"):
        return ""
    python = shlex.quote(sys.executable)
    return f"the package {name} is not installed; install it: {python} -m pip install {name}"


def is_out_of_files(error: BaseException) -> bool:
    """Whether this process, or the system, ran out of file descriptors. The command line reports
    that with the fix, so handlers of file errors let it pass."""
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)


class NotMeasuredError(FlashbenchError):
    """No build, no import, no device, nothing measured (exit code 4)."""

    exit_code = Exit.NOT_MEASURED


class BudgetSpentError(NotMeasuredError):
    """--budget was spent, or would be, before anything is measured."""


class UnprovenError(NotMeasuredError):
    """No proof that revisions sharing a process run their own code."""
