"""Check what a build needs from the Python environment before starting it.

Builds use this Python's environment, not one of their own: a hundred commits would need a hundred
environments, each from a network that may be missing.
"""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from flashbench.builds import running, toolchain
from flashbench.errors import NotMeasuredError

_PROGRAMS = ("cmake", "ninja")  # may be the machine's own
_ANSWERING_SECONDS = 30.0


def require(requirements: Iterable[str]) -> None:
    """Raise NotMeasuredError, with the command that installs them, if any are not met."""
    if found := missing(requirements):
        install = shlex.join([sys.executable, "-m", "pip", "install", *found])
        raise NotMeasuredError(
            f"a build needs {', '.join(found)}, which this Python lacks; install with: {install}"
        )


def missing(requirements: Iterable[str]) -> list[str]:
    """The requirements (PEP 508) that are not installed, or too old. The machine's own cmake and
    ninja are accepted.

    A pin or an upper bound is not a reason to refuse: many projects pin a torch that they do not
    need.
    """
    return [text for text in dict.fromkeys(requirements) if not _is_met(text)]


def _is_met(text: str) -> bool:
    try:
        wanted = Requirement(text)
    except InvalidRequirement:
        return True  # the build will say
    if wanted.marker is not None and not wanted.marker.evaluate():
        return True
    installed = toolchain.installed(wanted.name)
    if not installed and wanted.name in _PROGRAMS:
        program = shutil.which(wanted.name, path=running.environment()["PATH"])
        installed = _version(program, Path(program).stat().st_mtime_ns) if program else ""
    if not installed:
        return False
    bounds = [str(bound) for bound in wanted.specifier if bound.operator in (">=", ">", "~=")]
    least = SpecifierSet(",".join(bound.replace("~=", ">=") for bound in bounds))
    # For a nightly, the version it leads to.
    return least.contains(Version(installed).base_version, prereleases=True)


@cache
def _version(program: str, changed: int) -> str:
    """The first version that `--version` prints, or "". changed: the file's timestamp, for the
    cache."""
    try:
        done = subprocess.run(
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ANSWERING_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r"\d+(\.\d+)+", done.stdout) if done.returncode == 0 else None
    return found[0] if found else ""
