"""Check whether a built revision can be imported and computes correctly, in separate processes, as
a worker would.

One server imports torch once and forks a process per revision (check_process.py), so a hundred
revisions do not cost a hundred imports of torch.
"""

import contextlib
import io
import json
import os
import re
import select
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec

from flashbench import defaults
from flashbench.builds import diagnosis, running
from flashbench.builds.content import libraries
from flashbench.builds.diagnosis import BuildStatus
from flashbench.builds.recipe import PROBE_TIMEOUT_SECONDS, signal_name
from flashbench.builds.supervise import Log
from flashbench.errors import NotMeasuredError
from flashbench.measuring.forks import Forked, Forks
from flashbench.revisions import jit
from flashbench.revisions.check_process import CheckRequest
from flashbench.revisions.computed import ATTENTION_BY_DEFAULT, WhatIsComputed

SERVER = (
    "from flashbench.revisions.check_process import serve; del sys.path[0]; serve(int(sys.argv[1]))"
)
_STARTING_SECONDS = 300.0  # of the server: importing torch on a busy machine
_ENDING_SECONDS = 60.0  # of a killed check, before its server is given up
_STEP_SECONDS = 0.05
_CHUNK = 1 << 16  # and the most that is read of a check's answers
_WORDS = ("error", "wrong", "refused", "checked", "absent", "compilers", "at")
_MOST_EXITS = 64  # calls that may end their process before the rest is not tried
_TRIES = 2  # of a revision that ends the server: something else may have
_NO_TORCH = "No module named 'torch'"
_MISSING = (
    re.compile(r"No module named '([\w.]+)'"),
    re.compile(r"cannot import name '(\w+)' from (?:partially initialized module )?'([\w.]+)'"),
)


class CallResult(NamedTuple):
    """The result of calling a callable. status: "built" if it is correct; checked: on which cases,
    in one line."""

    status: BuildStatus
    reason: str = ""
    checked: str = ""


class LoadResult(NamedTuple):
    """The result of importing a callable. compilers: modules that it imported to compile."""

    status: BuildStatus
    reason: str = ""
    compilers: tuple[str, ...] = ()


class Checker:
    """Checks import roots, one after another. Use as a context manager; the server starts when
    needed."""

    def __init__(
        self,
        timeout: float = PROBE_TIMEOUT_SECONDS,
        compiling: float = defaults.BUILD_TIMEOUT_SECONDS,
    ) -> None:
        """timeout: seconds that a revision may take to load, and as many for its calls. compiling:
        seconds for both while torch compiles an extension of it."""
        self.timeout = timeout
        self.compiling = max(timeout, compiling)
        self._forks = Forks(SERVER, sweeps=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the server, and any running check."""
        self._forks.end()

    def loads(self, import_root: Path, spec: str, log: Path, tree: str = "") -> LoadResult:
        """Status "built" if `module:function` can be imported from an import root, else how it
        fails and why. log: a file to write, for what the import prints. tree: the working tree;
        importing from it is an error. Raises NotMeasuredError if it needs torch, which is not
        installed."""
        reply = self._ask(CheckRequest(str(import_root), spec, tree), log)
        if "error" not in reply:
            return LoadResult(*self._ended(reply, log, "loading", "import error"))
        error = reply["error"]
        if error and _NO_TORCH in error:  # the machine lacks it, whatever the sources are
            raise NotMeasuredError(f"{_NO_TORCH}; install it: python -m pip install torch")
        if error:
            return LoadResult(*_status(error, import_root, spec))
        return LoadResult("built", "", tuple(str(reply.get("compilers") or "").split()))

    def computes(
        self,
        import_root: Path,
        spec: str,
        log: Path,
        cases: Sequence[str] = (),
        operation: WhatIsComputed = ATTENTION_BY_DEFAULT,
    ) -> CallResult:
        """Whether the importable callable is correct on these cases: "built", "wrong result",
        "timeout", or "unchecked" if it refuses one of them. No cases: small ones, some of which it
        may refuse, but not all. A case on which it calls `exit` is refused, as by an exception.
        """
        ended: dict[str, str] = {}
        request = CheckRequest(
            str(import_root),
            spec,
            correct=True,
            cases=list(cases),
            operation=operation,
            ended=ended,
        )
        while True:
            reply = self._ask(request, log)
            at = str(reply.get("at") or "")
            exited = "wrong" not in reply and (reply.get("code") or 0) > 0
            if not exited or not at or at in ended or len(ended) == _MOST_EXITS:
                break
            ended[at] = self._ended(reply, log, "the call", "wrong result")[1]
        if reply.get("error"):
            return CallResult("import error", str(reply["error"]).replace(f"{import_root}/", ""))
        if "wrong" not in reply:
            return CallResult(*self._ended(reply, log, "a call", "wrong result"))
        if reply["wrong"]:
            return CallResult("wrong result", str(reply["wrong"]))
        checked = str(reply.get("checked") or "")
        if reply.get("refused") or not checked:
            return CallResult("unchecked", str(reply.get("refused") or "it named no case"))
        return CallResult("built", "", checked)

    def warms_up(
        self,
        import_root: Path,
        spec: str,
        log: Path,
        cases: Sequence[str],
        threads: int | None,
        operation: WhatIsComputed = ATTENTION_BY_DEFAULT,
    ) -> None:
        """Call the importable callable once on each of these cases, whatever it returns or raises,
        so that it compiles what it compiles then. threads: of torch; None: its default."""
        request = CheckRequest(
            str(import_root),
            spec,
            warm=True,
            cases=list(cases),
            operation=operation,
            threads=threads,
        )
        with contextlib.suppress(NotMeasuredError):  # no such device: launches say so
            self._ask(request, log)

    def _ended(
        self, reply: dict[str, Any], log: Path, what: str, status: BuildStatus
    ) -> tuple[BuildStatus, str]:
        """The answer for a process that ended, or was killed, before it answered."""
        if "checker" in reply:
            return status, f"{what} ended the process that checks it: {reply['checker']}"
        if reply["code"] is None:
            return "timeout", f"{what} took longer than {self.timeout:g} s"
        code = int(reply["code"])
        if code < 0:
            return status, f"{what} ended with {signal_name(-code)}"  # SIGKILL: lack of memory
        lines = log.read_bytes()[-10_000:].decode(errors="replace").splitlines()
        last = next((line for line in reversed(lines) if line.strip()), "")
        return status, f"{what} ended with exit code {code}: {last[:300]}".removesuffix(": ")

    def _ask(self, request: CheckRequest, log: Path) -> dict[str, Any]:
        """The process's answers, and its exit code as "code" (negative: a signal; None: it was
        stopped), its output in the log. Raises StoppedError after `running.stop_all`."""
        for _ in range(_TRIES):
            if running.stopped():
                raise running.StoppedError
            with log.open("wb") as file:
                reply, code = self._answers(request, Log(file.fileno()))
            if reply:
                break
        else:  # twice by the same revision: not by chance
            if code is None:
                raise NotMeasuredError(
                    "the process that checks built revisions does not start; is `python -c 'import "
                    "torch'` right?"
                )
            how = f"exit code {code}" if code >= 0 else signal_name(-code)
            return {"checker": f"it ended with {how}"}
        if "absent" in reply:
            raise NotMeasuredError(f"--case: there is no {reply['absent']} device here")
        return reply

    def _answers(self, request: CheckRequest, log: Log) -> tuple[dict[str, Any], int | None]:
        """As for `_ask`. Nothing if the server ended first: its exit code, None if it never
        forked."""
        reply: dict[str, Any] = {}
        ours, theirs = socket.socketpair()
        reader, writer = os.pipe()
        with ours, io.FileIO(reader):
            with theirs, io.FileIO(writer, "w"):
                fork = self._forks.start(theirs, writer)
            try:
                with running.stoppable(fork.server.pid):
                    started = fork.started(_STARTING_SECONDS)
                    if started:
                        with contextlib.suppress(OSError):  # it has ended
                            ours.sendall(msgspec.json.encode(request) + b"\n")
                        with contextlib.suppress(subprocess.TimeoutExpired):  # the server hangs
                            reply = self._watch(
                                fork, ours.fileno(), reader, log, request.import_root
                            )
            finally:
                if not reply:
                    self.close()
                log.end()
        if not reply and running.stopped():
            raise running.StoppedError
        return reply, fork.server.end() if started and not reply else None

    def _watch(
        self, fork: Forked, answers: int, prints: int, log: Log, import_root: str
    ) -> dict[str, Any]:
        """As for `_ask`; nothing if the server ended first."""
        said = bytearray()
        sinks = {answers: said.extend, prints: log.add}
        end = time.monotonic() + self.timeout
        last = end + self.timeout  # of the import and the calls, reported one after the other
        compiled = time.monotonic() + self.compiling
        code: int | None = None
        while True:
            ready, _, _ = select.select([*sinks, fork.fileno()], [], [], _STEP_SECONDS)
            for handle in sinks.keys() & ready:
                if not (part := _read(handle)):  # it closed its end, but may be alive
                    del sinks[handle]
                else:
                    sinks[handle](part)
                    if handle == answers:
                        end = min(time.monotonic() + self.timeout, last)
            del said[_CHUNK:]
            if fork.fileno() in ready:
                code = fork.wait(0)
                break
            if time.monotonic() > end:
                if time.monotonic() > compiled or not jit.is_compiling(Path(import_root)):
                    fork.kill(_ENDING_SECONDS)
                    break
                end = last = time.monotonic() + self.timeout
        for handle, sink in sinks.items():
            os.set_blocking(handle, False)
            while part := _read(handle):
                sink(part)
        reply: dict[str, Any] = {}
        for line in said[:_CHUNK].splitlines():
            with contextlib.suppress(ValueError, TypeError):
                reply |= json.loads(line)
        # A revision can write there too: its messages are treated as mere text.
        words = {key: value and str(value) for key, value in reply.items() if key in _WORDS}
        return {} if fork.lost else words | {"code": code}


def _read(handle: int) -> bytes:
    try:
        return os.read(handle, _CHUNK)
    except (BlockingIOError, ConnectionResetError):
        return b""


def _status(error: str, import_root: Path, spec: str) -> tuple[BuildStatus, str]:
    error = error.replace(f"{import_root}{os.sep}", "")
    if wanted := _missing(error, spec):
        built = [path.relative_to(import_root).as_posix() for path in libraries(import_root)]
        # setuptools leaves a copy of each there.
        built = [name for name in built if not name.startswith("build/")] or built
        # A module in a package that is the callable's own is mostly Python: not what was built.
        own = "." in wanted and f"{spec.partition(':')[0]}.".startswith(f"{wanted}.")
        if built and not own and not any(_is_module(name, wanted) for name in built):
            return "wrong module name", f"expected {wanted}, got {', '.join(built)}"
    status, reason = diagnosis.diagnose(error)
    return ("import error", error) if status == "build error" else (status, reason)


def _missing(error: str, spec: str) -> str | None:
    """The project's own module that the error reports as missing."""
    absent, unknown = (pattern.search(error) for pattern in _MISSING)
    name = absent[1] if absent else f"{unknown[2]}.{unknown[1]}" if unknown else ""
    package = spec.partition(":")[0].partition(".")[0]
    return name if name.partition(".")[0] == package else None


def _is_module(library: str, name: str) -> bool:
    return library.partition(".")[0] == name.replace(".", "/")
