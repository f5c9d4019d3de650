"""Recipes: how to turn the sources of a checkout into something importable."""

import contextlib
import hashlib
import json
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from flashbench import source_hash
from flashbench.builds import diagnosis, probe, running
from flashbench.builds.content import content_hash
from flashbench.builds.diagnosis import BuildStatus

MODULE = "flashbench._C"
PROBE_TIMEOUT_SECONDS = 120.0
LOG_BYTES = 4_000_000  # more than supervise.py keeps


@dataclass(frozen=True)
class BuildResult:
    """The outcome of one build. library: path inside the build's directory."""

    status: BuildStatus
    reason: str = ""
    library: str = ""
    library_hash: str = ""
    stated_source_hash: str = ""


class Recipe(Protocol):
    """One way to build: its part of the key, the hash of its sources, and the build itself."""

    @property
    def key(self) -> Sequence[object]:
        """What else identifies a build, besides sources and toolchain; encoded as JSON."""
        ...

    @property
    def variables(self) -> Sequence[str]:
        """Environment variables that change the build, besides the toolchain's."""
        ...

    @property
    def requires(self) -> Sequence[str]:
        """Python packages that the build needs, as PEP 508 requirements."""
        ...

    def source_hash(self, checkout: Path) -> str: ...

    def make(self, checkout: Path, work: Path, timeout: float) -> BuildResult:
        """Build into `work`/lib, log to `work`/log.txt, keep the rest in `work`/work.

        Nothing is written into `checkout`.
        """
        ...


class OwnExtension:
    """flashbench's extension, built by its setup.py with every output elsewhere, and loaded once as
    a check."""

    key = (MODULE,)
    variables = ()
    # As [build-system] of pyproject.toml.
    requires = ("setuptools>=77", "pybind11>=3.0", "cmake>=3.24", "ninja>=1.11")

    def source_hash(self, checkout: Path) -> str:
        """The hash that the library states; if the sources contain a link, the hash of everything,
        so no link is followed out of the checkout."""
        for source in source_hash.SOURCES:
            path = checkout / source
            above = (checkout / parent for parent in Path(source).parents if parent.name)
            if any(place.is_symlink() for place in (*above, path, *path.rglob("*"))):
                return content_hash(checkout)
        return source_hash.of_tree(checkout)

    def make(self, checkout: Path, work: Path, timeout: float) -> BuildResult:
        if not (checkout / "setup.py").is_file():
            return BuildResult("build error", "no setup.py: there is no extension to build")
        lib = work / "lib"
        command = [sys.executable, "setup.py", "build_ext", "--build-lib", str(lib)]
        command += ["--build-temp", str(work / "work" / "temp")]
        environment = running.environment()
        environment.pop("PYTHONPATH", None)
        environment["FLASHBENCH_BUILD_DIR"] = str(work / "work" / "cmake")
        code = running.run(command, checkout, work / "log.txt", environment, timeout)
        if code is None:
            return timed_out(timeout)
        if code:
            return failure("setup.py", code, work)
        package, _, name = MODULE.rpartition(".")
        libraries = sorted((lib / package.replace(".", "/")).glob(f"{name}*.so"))
        if len(libraries) != 1:
            others = ", ".join(str(path.relative_to(lib)) for path in sorted(lib.rglob("*.so")))
            reason = f"expected one {MODULE}, got {others or 'no library'}"
            return BuildResult("wrong module name", reason)
        (library,) = libraries
        done = load(library, work)
        if isinstance(done, str):
            return BuildResult(*diagnosis.diagnose(done))
        return BuildResult(
            "built",
            library=str(library.relative_to(work)),
            library_hash=hashlib.sha256(library.read_bytes()).hexdigest(),
            stated_source_hash=str(done.get("source_hash", "")),
        )


def failure(program: str, code: int, work: Path) -> BuildResult:
    """The failure of a build that ended with an exit code (negative: a signal)."""
    if code == -signal.SIGKILL:  # not by us: nothing it printed is the reason
        return BuildResult(
            "build error", f"{program} ended with SIGKILL, perhaps for lack of memory"
        )
    status, reason = diagnosis.diagnose(read_log(work))
    how = signal_name(-code) if code < 0 else f"exit code {code}"
    return BuildResult(status, reason or f"{program} ended with {how}")


def timed_out(timeout: float) -> BuildResult:
    return BuildResult("timeout", f"the build took longer than {timeout:g} s and was stopped")


def read_log(work: Path) -> str:
    """A build's output so far; empty if it was not started."""
    with contextlib.suppress(FileNotFoundError), (work / "log.txt").open("rb") as file:
        return file.read(LOG_BYTES).decode(errors="replace")
    return ""


def load(library: Path, work: Path) -> dict[str, Any] | str:
    """The library's build info, loaded in a fresh process, or why it does not load."""
    command = [sys.executable, "-I", str(probe.__file__), str(library), MODULE]
    said = work / "work" / "probe.txt"
    said.parent.mkdir(exist_ok=True)
    code = running.run(command, work, said, running.environment(), PROBE_TIMEOUT_SECONDS)
    text = said.read_bytes()[:LOG_BYTES].decode(errors="replace")
    if code is None:
        return f"timeout: loading took longer than {PROBE_TIMEOUT_SECONDS:g} s"
    if code < 0:
        return f"import error: loading ended with {signal_name(-code)}"
    if code:
        return text
    try:
        stated = json.loads(text.splitlines()[-1])
    except (ValueError, IndexError):
        stated = None
    return stated if isinstance(stated, dict) else "import error: loading ended the process"


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
