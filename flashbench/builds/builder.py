"""Build a checkout's extension in its own directory and cache it, or record why it cannot be built.

The cache holds one directory per key, the hash of sources, recipe and toolchain, so commits with
equal sources share one build, and a failure is not retried until one of them changes:

    KEY/build.json      the record (`Build`)
    KEY/lib/...         what the build delivered: flashbench/_C*.so, flashbench/_build.json
    KEY/log.txt         everything the build printed
    KEY.lock            exists, and is held, while KEY is being built
"""

import datetime
import errno
import hashlib
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

import msgspec

from flashbench import defaults, locks
from flashbench.builds import diagnosis, missing_symbol, pruning, requirements, running, toolchain
from flashbench.builds.diagnosis import BuildStatus
from flashbench.builds.recipe import BuildResult, OwnExtension, Recipe, read_log
from flashbench.builds.scratch import scratch
from flashbench.files import remove_tree

_LEAST_FREE = 1 << 20  # free bytes of a disk, below which a failure does not count


class Build(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """The outcome of building one set of sources with one toolchain."""

    key: str
    status: BuildStatus
    reason: str = ""  # the first lines that explain a failure; empty when built
    source_hash: str
    toolchain: dict[str, str]
    stated_source_hash: str = ""  # the library's own description, if it has one
    library: str = ""  # path inside `directory`
    library_hash: str = ""  # sha256 of the file
    created: str = ""  # ISO 8601, UTC
    seconds: float = 0.0
    limit: float = 0.0  # for a time-out: the allowed seconds
    # Not stored: where it was read from, and that this call built nothing.
    directory: str = ""
    reused: bool = False


# Created here, not where it is used: a type that several threads decode for the first time at once
# crashes the process (msgspec 0.22).
_BUILD = msgspec.json.Decoder(Build)


def cache_directory() -> Path:
    """The build cache: $FLASHBENCH_CACHE/builds, by default in the user's cache directory. Without
    symbolic links, as the system names the libraries that a process has loaded."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    chosen = os.environ.get("FLASHBENCH_CACHE") or Path(base) / "flashbench"
    return Path(chosen).resolve() / "builds"


def build(
    checkout: Path,
    cache: Path,
    *,
    recipe: Recipe | None = None,
    retry_failed: bool = False,
    timeout: float = defaults.BUILD_TIMEOUT_SECONDS,
) -> Build:
    """Build the extension of the sources in `checkout`, or find an earlier build.

    recipe: how to build; None: flashbench's own extension, by its setup.py.

    Nothing is written into `checkout`. Several processes may call this at once: one builds, the
    others wait for it. Failures are cached like successes and retried only with `retry_failed`, or
    with more time after a time-out; failures for lack of memory, disk or a compiler are not cached.
    Raises OSError if the cache cannot be written or its disk is full, NotMeasuredError if this
    Python lacks a build requirement.
    """
    recipe = recipe or OwnExtension()
    cache.mkdir(parents=True, exist_ok=True)
    pruning.use(cache)
    sources = recipe.source_hash(checkout)
    tools = toolchain.describe(recipe.variables)
    key = key_of(recipe, sources, tools)
    with locks.exclusive(cache / f"{key}.lock"):
        known = find(cache, key)
        if known and is_answer(known, retry_failed=retry_failed, timeout=timeout):
            return known
        requirements.require(recipe.requires)
        with scratch(cache) as base:
            work = base / "build"
            work.mkdir()
            started = time.monotonic()
            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            says_something = True
            try:
                found = recipe.make(checkout, work, timeout)
            except running.KilledError as error:
                found, says_something = BuildResult("build error", f"{error}, so not kept"), False
            if held := missing_symbol.should_have_held(found.reason, checkout, read_log(work)):
                found = replace(found, reason=f"{found.reason}\n{held}")
            made = Build(
                key=key,
                status=found.status,
                reason=found.reason.replace(f"{checkout}/", "").replace(f"{work}/", ""),
                source_hash=sources,
                toolchain=tools,
                stated_source_hash=found.stated_source_hash,
                library=found.library,
                library_hash=found.library_hash,
                created=now,
                seconds=round(time.monotonic() - started, 3),
                limit=timeout if found.status == "timeout" else 0.0,
            )
            if recipe.source_hash(checkout) != sources:
                reason = "the sources changed while they were being built; build again"
                return msgspec.structs.replace(made, status="build error", reason=reason)
            if not says_something:
                return made
            if made.status != "built":
                if shutil.disk_usage(work).free < _LEAST_FREE:  # whatever it says
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                log = f"{made.reason}\n{read_log(work)}"
                reason = ""
                # A shell says "Killed" of what a timeout ended; that is no lack of memory.
                if made.status != "timeout" and (line := diagnosis.passing(log)):
                    reason = f"for lack of memory or disk, so not kept: {line}"
                elif line := diagnosis.missing_tool(log):
                    reason = f"for lack of a tool on PATH, so not kept: {line}"
                if reason:
                    return msgspec.structs.replace(made, status="build error", reason=reason)
            remove_tree(work / "work")
            (work / "build.json").write_bytes(msgspec.json.encode(made))
            remove_tree(cache / key)
            work.rename(cache / key)
            return msgspec.structs.replace(made, directory=str(cache / key))


def is_answer(known: Build, *, retry_failed: bool, timeout: float) -> bool:
    """Whether a known build is final; one that timed out earlier than `timeout` is not."""
    if known.status == "timeout":
        return not retry_failed and timeout <= known.limit
    return known.status == "built" or not retry_failed


def key_of(recipe: Recipe, sources: str, tools: dict[str, str]) -> str:
    """The key of the build of these sources. tools: from `toolchain.describe`."""
    described = msgspec.json.encode([*recipe.key, sources, sorted(tools.items())])
    return hashlib.sha256(described).hexdigest()[:32]


def find(cache: Path, key: str) -> Build | None:
    """The cached build with this key, if it is complete; never waits."""
    directory = cache / key
    try:
        record = _BUILD.decode((directory / "build.json").read_bytes())
    except (OSError, msgspec.DecodeError):
        return None  # not built yet, or by a version that kept something else: build
    # A path without a library is that of a build that delivers none: Python alone.
    if record.status == "built" and not (directory / record.library).exists():
        return None
    pruning.touch(directory)
    return msgspec.structs.replace(record, directory=str(directory), reused=True)
