"""Build: a checkout's extension, built in its own directory and kept, or why it cannot be built.

The cache holds one directory a key, the hash of sources and toolchain, so that commits with equal
sources share one build, and a failure is not tried again until one of the two changes:

    KEY/build.json      the record (`Build`)
    KEY/lib/...         what setup.py delivered: flashbench/_C*.so, flashbench/_build.json
    KEY/log.txt         everything the build printed
    KEY.lock            held while KEY is being built
"""

import contextlib
import datetime
import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from flashbench import source_hash
from flashbench.build import diagnosis, probe, toolchain
from flashbench.build.diagnosis import Status

MODULE = "flashbench._C"
TIMEOUT_SECONDS = 1800.0
PROBE_TIMEOUT_SECONDS = 120.0
LOG_BYTES = 4_000_000  # of a log that is longer, the head: the first error is what counts


class Build(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """What became of building one set of sources with one toolchain."""

    key: str
    status: Status
    reason: str = ""  # the first lines that say why; empty when built
    source_hash: str
    toolchain: dict[str, str]
    stated_source_hash: str = ""  # what the library says of itself, empty when it does not
    library: str = ""  # path inside `directory`
    library_hash: str = ""  # sha256 of the file
    created: str = ""  # ISO 8601, UTC
    seconds: float = 0.0
    # Not kept in the record: where it was read from, and that nothing was built for this call.
    directory: str = ""
    reused: bool = False

    @property
    def headline(self) -> str:
        """One line: the status and the first line that says why."""
        first = self.reason.partition("\n")[0]
        return f"{self.status}: {first}" if first else self.status


def cache_directory() -> Path:
    """Where builds are kept: $FLASHBENCH_CACHE/builds, by default in the user's cache directory."""
    chosen = os.environ.get("FLASHBENCH_CACHE")
    if chosen:
        return Path(chosen).absolute() / "builds"
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "flashbench" / "builds"


def build(
    checkout: Path,
    cache: Path,
    *,
    retry_failed: bool = False,
    timeout: float = TIMEOUT_SECONDS,
) -> Build:
    """Build the extension of the sources in `checkout`, or find that this was done before.

    Nothing is written into `checkout`. Several processes may call this at once: one builds, the
    others wait for it. A failure is an answer, kept like a success and tried again only with
    `retry_failed`; one for want of memory or disk is not kept. Raises OSError when the cache
    cannot be written.
    """
    sources = source_hash.of_tree(checkout)
    tools = toolchain.describe()
    described = msgspec.json.encode([MODULE, sources, sorted(tools.items())])
    key = hashlib.sha256(described).hexdigest()[:32]
    with _locked(cache / f"{key}.lock"):
        known = _read(cache / key)
        if known and (known.status == "built" or not retry_failed):
            return known
        for left in cache.glob(f".{key}.*"):  # by one that was killed; we hold its lock now
            shutil.rmtree(left, ignore_errors=True)
        work = Path(tempfile.mkdtemp(dir=cache, prefix=f".{key}."))
        try:
            found = _make(checkout, work, timeout)
            made = msgspec.structs.replace(found, key=key, source_hash=sources, toolchain=tools)
            if source_hash.of_tree(checkout) != sources:
                reason = "the sources changed while they were being built; build again"
                return msgspec.structs.replace(made, status="build error", reason=reason)
            if made.status != "built" and diagnosis.is_passing(_log(work)):
                return made
            shutil.rmtree(work / "work", ignore_errors=True)
            (work / "build.json").write_bytes(msgspec.json.encode(made))
            shutil.rmtree(cache / key, ignore_errors=True)
            work.rename(cache / key)
            return msgspec.structs.replace(made, directory=str(cache / key))
        finally:
            shutil.rmtree(work, ignore_errors=True)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock that the system lets go of when the process ends, however it ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _read(directory: Path) -> Build | None:
    try:
        record = msgspec.json.decode((directory / "build.json").read_bytes(), type=Build)
    except (OSError, msgspec.DecodeError):
        return None  # not built yet, or by a version that kept something else: build
    if record.status == "built" and not (directory / record.library).is_file():
        return None
    return msgspec.structs.replace(record, directory=str(directory), reused=True)


def _make(checkout: Path, work: Path, timeout: float) -> Build:
    """Run setup.py with every output in `work`, then load what it delivered."""
    started = time.monotonic()
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")

    def ended(
        status: Status, reason: str = "", library: str = "", digest: str = "", stated: str = ""
    ) -> Build:
        return Build(
            key="",
            status=status,
            reason=reason.replace(f"{checkout}/", "").replace(f"{work}/", ""),
            source_hash="",
            toolchain={},
            created=now,
            seconds=round(time.monotonic() - started, 3),
            library=library,
            library_hash=digest,
            stated_source_hash=stated,
        )

    if not (checkout / "setup.py").is_file():
        return ended("build error", "no setup.py: there is no extension to build")
    lib = work / "lib"
    command = [sys.executable, "setup.py", "build_ext", "--build-lib", str(lib)]
    command += ["--build-temp", str(work / "work" / "temp")]
    code = _run(command, checkout, work / "log.txt", _environment(work), timeout)
    if code is None:
        return ended("timeout", f"the build took longer than {timeout:g} s and was stopped")
    if code:
        return ended(*diagnosis.diagnose(_log(work)))
    package, _, name = MODULE.rpartition(".")
    libraries = sorted((lib / package.replace(".", "/")).glob(f"{name}*.so"))
    if len(libraries) != 1:
        others = ", ".join(str(path.relative_to(lib)) for path in sorted(lib.rglob("*.so")))
        return ended("wrong module name", f"expected one {MODULE}, got {others or 'no library'}")
    (library,) = libraries
    done = _load(library)
    if isinstance(done, str):
        return ended(*diagnosis.diagnose(done))
    return ended(
        "built",
        library=str(library.relative_to(work)),
        digest=hashlib.sha256(library.read_bytes()).hexdigest(),
        stated=str(done.get("source_hash", "")),
    )


def _log(work: Path) -> str:
    with contextlib.suppress(FileNotFoundError), (work / "log.txt").open("rb") as file:
        return file.read(LOG_BYTES).decode(errors="replace")
    return ""


def _environment(work: Path) -> dict[str, str]:
    environment = dict(os.environ)
    # cmake and ninja come as Python packages: found also where the environment is not activated.
    tools = str(Path(sys.executable).parent)
    environment["PATH"] = os.pathsep.join([tools, environment.get("PATH", os.defpath)])
    environment["FLASHBENCH_BUILD_DIR"] = str(work / "work" / "cmake")
    environment["PYTHONDONTWRITEBYTECODE"] = "1"  # nothing is written into the checkout
    environment.pop("PYTHONPATH", None)
    return environment


def _run(
    command: list[str], directory: Path, log: Path, environment: dict[str, str], timeout: float
) -> int | None:
    """The exit code, or None after a time-out. No process of the build outlives this call."""
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


def _load(library: Path) -> dict[str, Any] | str:
    """What the library says of itself when a fresh process loads it, or why it does not load."""
    command = [sys.executable, "-I", str(probe.__file__), str(library), MODULE]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PROBE_TIMEOUT_SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"import error: loading took longer than {PROBE_TIMEOUT_SECONDS:g} s"
    if done.returncode < 0:
        return f"import error: loading ended with {signal.Signals(-done.returncode).name}"
    if done.returncode:
        return done.stdout + done.stderr
    stated: dict[str, Any] = json.loads(done.stdout)
    return stated
