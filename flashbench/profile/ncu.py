"""Nsight Compute: find it, check permission, run it on one call, and export its report."""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from flashbench.errors import NotMeasuredError
from flashbench.process_group import run
from flashbench.profile import counters

_PERMISSION = "ERR_NVGPUCTRPERM"
_PERMISSION_FIX = (
    "ncu is here, but this user may not read the GPU's counters (ERR_NVGPUCTRPERM): run as root or "
    "with CAP_SYS_ADMIN, or load the driver with NVreg_RestrictProfilingToAdminUsers=0"
)
_MISSING = (
    "there is no ncu here: install Nsight Compute (it comes with the CUDA toolkit), or name it in "
    "$FLASHBENCH_NCU"
)
_QUERY_SECONDS = 60


class CountersUnavailableError(NotMeasuredError):
    """No counters; the message says whether ncu or the permission is missing, and the fix."""


def find() -> str:
    """Path of ncu: $FLASHBENCH_NCU, the PATH, or where the CUDA toolkit is installed.

    Raises CountersUnavailableError.
    """
    named = os.environ.get("FLASHBENCH_NCU")
    found = shutil.which(named or "ncu")
    if found is None and named is None:
        places = sorted(Path("/usr/local").glob("cuda*/bin/ncu"), reverse=True)
        found = next((str(path) for path in places if os.access(path, os.X_OK)), None)
    if found is None:
        why = f"$FLASHBENCH_NCU: no program {named!r}" if named else _MISSING
        raise CountersUnavailableError(why)
    return found


def offered(ncu: str) -> list[str]:
    """This ncu's names of our counters on this GPU; all names if it cannot list any.

    Versions before 2023 refuse a list with an unknown name.
    """
    try:
        answer = run([ncu, "--query-metrics"], _QUERY_SECONDS).stdout
    except (OSError, subprocess.SubprocessError):
        answer = ""
    return counters.wanted(frozenset(re.findall(r"^(\w+__\w+)\s", answer, re.MULTILINE)))


def command(
    ncu: str, report: Path, target: Sequence[str], metrics: Sequence[str], *, cold: bool
) -> list[str]:
    """The command that profiles `target` between cudaProfilerStart and -Stop.

    Replays every kernel until all counters are read, with unchanged clocks. cold: flush caches
    before each replay; otherwise they are as the previous replay left them.
    """
    return [
        ncu,
        "--profile-from-start",
        "off",
        "--clock-control",
        "none",
        "--cache-control",
        "all" if cold else "none",
        "--metrics",
        ",".join(metrics),
        "--export",
        str(report),
        "--force-overwrite",
        *target,
    ]


def collect(
    ncu: str,
    report: Path,
    target: Sequence[str],
    metrics: Sequence[str],
    timeout: float,
    *,
    cold: bool,
) -> str:
    """Profile a target into the report; returns its counters as CSV. metrics: from `offered`.

    Raises CountersUnavailableError without permission, NotMeasuredError if the target fails or
    nothing was profiled.
    """
    try:
        done = run(command(ncu, report, target, metrics, cold=cold), timeout)
    except subprocess.TimeoutExpired:
        raise NotMeasuredError(f"ncu: no end within {timeout:g} s") from None
    except OSError as error:
        raise CountersUnavailableError(f"{ncu}: cannot be run: {error.strerror}") from None
    said = done.stdout + done.stderr
    if _PERMISSION in said:
        raise CountersUnavailableError(_PERMISSION_FIX)
    if done.returncode or not report.is_file():
        raise NotMeasuredError(f"ncu: {_reason(said, done.returncode)}")
    return export(ncu, report)


def export(ncu: str, report: Path) -> str:
    """A report as CSV: one line per kernel, in base units. Raises NotMeasuredError."""
    shown = [ncu, "--import", str(report), "--csv", "--page", "raw", "--print-units", "base"]
    try:
        done = run(shown, _QUERY_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        raise NotMeasuredError(f"{report}: ncu cannot read it: {error}") from None
    if done.returncode:
        raise NotMeasuredError(f"{report}: ncu: {_reason(done.stdout, done.returncode)}")
    return done.stdout


def version(ncu: str) -> str:
    """The version, such as "2025.3.1.0"; "" if unknown."""
    try:
        found = re.search(r"Version (\S+)", run([ncu, "--version"], _QUERY_SECONDS).stdout)
    except (OSError, subprocess.SubprocessError):
        return ""
    return found[1] if found else ""


def _reason(said: str, code: int) -> str:
    """The last error line of ncu or the target."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("==ERROR==")]
    others = [line for line in lines if not line.startswith("==")]
    found = (others or errors)[-1:] or [f"exit status {code}"]
    return found[0].removeprefix("==ERROR==").strip()[:300]
