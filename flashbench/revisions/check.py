"""Check whether a built revision can be imported and computes correctly, in separate processes, as
a worker would.

One server (flashbench/revisions/check_server.py) imports torch once and forks a process per
revision, so a hundred revisions do not cost a hundred imports of torch.
"""

import contextlib
import json
import os
import re
import select
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec
from msgspec.structs import replace

from flashbench import own_python
from flashbench.builds import diagnosis, running
from flashbench.builds.builder import TIMEOUT_SECONDS
from flashbench.builds.content import libraries
from flashbench.builds.diagnosis import Status
from flashbench.builds.recipe import PROBE_TIMEOUT_SECONDS, signal_name
from flashbench.errors import NotMeasuredError
from flashbench.revisions.check_server import CheckRequest
from flashbench.revisions.computed import ATTENTION, WhatIsComputed

_BOOTSTRAP = "from flashbench.revisions.check_server import main; del sys.path[0]; main()"
_STARTING_SECONDS = 300.0  # of the server: importing torch on a busy machine
_ANSWERING_SECONDS = 60.0  # beyond the time limits of what it runs, before it is given up
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

    status: Status
    reason: str = ""
    checked: str = ""


class LoadResult(NamedTuple):
    """The result of importing a callable. compilers: modules that it imported to compile."""

    status: Status
    reason: str = ""
    compilers: tuple[str, ...] = ()


class Checker:
    """Checks import roots, one after another. Use as a context manager; the server starts when
    needed."""

    def __init__(
        self, timeout: float = PROBE_TIMEOUT_SECONDS, compiling: float = TIMEOUT_SECONDS
    ) -> None:
        """timeout: seconds that a revision may take to load, and as many for its calls. compiling:
        seconds for both while torch compiles an extension of it."""
        self.timeout = timeout
        self.compiling = max(timeout, compiling)
        self._server: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the server, and any running check."""
        if self._server is not None:
            assert self._server.stdin is not None
            assert self._server.stdout is not None
            self._server.stdin.close()  # it kills what it runs, and ends
            try:
                self._server.wait(5)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait()
            running.read_to_end(self._server.stdout)  # at its end no process of the server is left
            self._server.stdout.close()
            self._server = None

    def loads(self, import_root: Path, spec: str, log: Path, tree: str = "") -> LoadResult:
        """Status "built" if `module:function` can be imported from an import root, else how it
        fails and why. log: a file to write, for what the import prints. tree: the working tree;
        importing from it is an error. Raises NotMeasuredError if it needs torch, which is not
        installed."""
        reply = self._ask(CheckRequest(str(import_root), spec, str(log), tree))
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
        operation: WhatIsComputed = ATTENTION,
    ) -> CallResult:
        """Whether the importable callable is correct on these cases: "built", "wrong result",
        "timeout", or "unchecked" if it refuses one of them. No cases: small ones, some of which it
        may refuse, but not all. A case on which it calls `exit` is refused, as by an exception.
        """
        ended: dict[str, str] = {}
        request = CheckRequest(
            str(import_root),
            spec,
            str(log),
            correct=True,
            cases=list(cases),
            operation=operation,
            ended=ended,
        )
        while True:
            reply = self._ask(request)
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
        operation: WhatIsComputed = ATTENTION,
    ) -> None:
        """Call the importable callable once on each of these cases, whatever it returns or raises,
        so that it compiles what it compiles then. threads: of torch; None: its default."""
        request = CheckRequest(
            str(import_root),
            spec,
            str(log),
            warm=True,
            cases=list(cases),
            operation=operation,
            threads=threads,
        )
        with contextlib.suppress(NotMeasuredError):  # no such device: launches say so
            self._ask(request)

    def _ended(
        self, reply: dict[str, Any], log: Path, what: str, status: Status
    ) -> tuple[Status, str]:
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

    def _ask(self, request: CheckRequest) -> dict[str, Any]:
        request = replace(request, timeout=self.timeout, compiling=self.compiling)
        for _ in range(_TRIES):
            answer, code = self._answer(msgspec.json.encode(request) + b"\n")
            if answer:
                break
        else:  # twice by the same revision: not by chance
            how = f"exit code {code}" if code >= 0 else signal_name(-code)
            return {"checker": f"it ended with {how}"}
        reply: dict[str, Any] = json.loads(answer)
        if "absent" in reply:
            raise NotMeasuredError(f"--case: there is no {reply['absent']} device here")
        if "unwritable" in reply:
            raise OSError(reply["unwritable"], os.strerror(reply["unwritable"]))
        return reply

    def _answer(self, request: bytes) -> tuple[bytes, int]:
        """The server's line; b"" and its exit code if it ended, or was killed, before it answered.
        Raises StoppedError after `running.stop_all`."""
        if running.stopped():
            raise running.StoppedError
        server = self._server or self._start()
        assert server.stdin is not None
        answer = b""
        with contextlib.suppress(OSError), running.stoppable(server.pid):
            server.stdin.write(request)
            server.stdin.flush()
            answer = self._line(server, _ANSWERING_SECONDS + self.compiling + 2 * self.timeout)
        if answer.endswith(b"\n"):
            return answer, 0
        self.close()
        if running.stopped():
            raise running.StoppedError
        return b"", server.returncode

    def _start(self) -> subprocess.Popen[bytes]:
        server = subprocess.Popen(
            running.kept(own_python.command(_BOOTSTRAP)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=running.environment(),
            start_new_session=True,  # Ctrl-C in the terminal is for the parent to handle
        )
        self._server = server
        with running.stoppable(server.pid):
            ready = self._line(server, _STARTING_SECONDS)
        if not ready:
            self.close()
            if running.stopped():
                raise running.StoppedError
            raise NotMeasuredError(
                "the process that checks built revisions does not start; is `python -c 'import "
                "torch'` right?"
            )
        return server

    def _line(self, server: subprocess.Popen[bytes], seconds: float) -> bytes:
        assert server.stdout is not None
        ready, _, _ = select.select([server.stdout], [], [], seconds)
        return server.stdout.readline() if ready else b""


def _status(error: str, import_root: Path, spec: str) -> tuple[Status, str]:
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
