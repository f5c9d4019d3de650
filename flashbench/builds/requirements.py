"""What a build needs from the Python environment, looked for before it is started.

Builds run beside this Python, without an environment of their own: a hundred commits would have a
hundred, each from a network that may not be there.
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
    """Raise NotMeasuredError, with the command that installs them, where any are not met."""
    if found := missing(requirements):
        install = shlex.join([sys.executable, "-m", "pip", "install", *found])
        raise NotMeasuredError(
            f"a build needs {', '.join(found)}, which this Python lacks; install with: {install}"
        )


def missing(requirements: Iterable[str]) -> list[str]:
    """Those, as PEP 508 writes them, that are not installed, or older than they say. Of cmake and
    ninja the machine's own will do.

    A pin or an upper bound is no reason to refuse: many projects pin a torch that they do not need.
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
    # Of a nightly the version that it leads to.
    return least.contains(Version(installed).base_version, prereleases=True)


@cache
def _version(program: str, changed: int) -> str:
    """What `--version` says first; "" where it says none. changed: of the file, whose answer is
    kept."""
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
