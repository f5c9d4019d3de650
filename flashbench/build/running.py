"""Runs a build's command: its environment, its time limit, and no process of it left behind."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path


def environment() -> dict[str, str]:
    """The environment of a build: that of this process, with the tools of this Python found."""
    found = dict(os.environ)
    # cmake and ninja come as Python packages: found also where the environment is not activated.
    tools = str(Path(sys.executable).parent)
    found["PATH"] = os.pathsep.join([tools, found.get("PATH", os.defpath)])
    found["PYTHONDONTWRITEBYTECODE"] = "1"  # nothing is written into the checkout
    return found


def run(
    command: Sequence[str],
    directory: Path,
    log: Path,
    environment: Mapping[str, str],
    timeout: float,
) -> int | None:
    """The exit code, or None after a time-out. No process of the build outlives this call.

    Raises OSError when the command cannot be started.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            return process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
