"""Run a program without leaving processes behind."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_ENVIRONMENT = {"LC_ALL": "C"}  # numbers without a locale's separators


def run(
    command: Sequence[str],
    timeout: float,
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> "subprocess.CompletedProcess[str]":
    """The command's result as text. Whatever ends the wait also kills its processes.

    folder: to run in; environment: instead of this process's with LC_ALL=C. Raises OSError if it
    cannot be started, subprocess.TimeoutExpired.
    """
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=os.environ | _ENVIRONMENT if environment is None else environment,
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
