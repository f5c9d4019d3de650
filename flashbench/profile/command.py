"""Run a profiler without leaving processes behind."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence

_ENVIRONMENT = {"LC_ALL": "C"}  # numbers without a locale's separators


def run(command: Sequence[str], timeout: float) -> "subprocess.CompletedProcess[str]":
    """The command's result as text. Whatever ends the wait also kills its processes.

    Raises OSError if it cannot be started, subprocess.TimeoutExpired.
    """
    process = subprocess.Popen(
        command,
        env=os.environ | _ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        stdout, stderr = process.communicate(timeout=timeout)
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)
