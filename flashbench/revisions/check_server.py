"""The process behind `Checker`: imports torch once, then forks a process for each requested import
root. A revision's code runs only in that process, under a time limit.

An empty line on stdout means ready. Requests and answers are JSON lines on stdin and stdout; it
exits at the end of stdin.
"""

import contextlib
import json
import os
import select
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import msgspec

from flashbench.builds.keeper import adopt_orphans, kill_descendants
from flashbench.builds.supervise import Log
from flashbench.parent import end_with
from flashbench.revisions import jit
from flashbench.revisions.computed import ATTENTION, WhatIsComputed

if TYPE_CHECKING:
    from flashbench.operations import Operation

_STEP_SECONDS = 0.05
_CHUNK = 1 << 16
_LONGEST = 5000  # characters of an error; JSON makes at most 12 bytes of one, so all fit a chunk

_WORDS = ("error", "wrong", "refused", "checked", "absent", "compilers", "at")


class CheckRequest(msgspec.Struct, frozen=True):
    """A request of `Checker`, with its time limits. correct: call the callable and check what it
    returns; warm: only call it, on `threads` of torch. ended: cases that ended their process, and
    how."""

    import_root: str
    spec: str
    log: str
    tree: str = ""
    correct: bool = False
    warm: bool = False
    cases: list[str] = []
    operation: WhatIsComputed = ATTENTION
    threads: int | None = None
    ended: dict[str, str] = {}
    timeout: float = 0.0
    compiling: float = 0.0


_REQUEST = msgspec.json.Decoder(CheckRequest)
_threads = 1  # torch's own choice
_answers = -1  # for the answers, out of a revision's reach


def main() -> None:
    """Serve until stdin ends, or SIGTERM."""
    adopt_orphans()
    signal.signal(signal.SIGTERM, lambda number, frame: _end())
    global _answers
    _answers = os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 1)  # torch's output at import is not an answer
    _import_ahead()
    os.write(_answers, b"\n")  # ready
    buffer = b""
    while True:
        while b"\n" not in buffer:
            part = os.read(0, _CHUNK)
            if not part:
                _end()
            buffer += part
        line, _, buffer = buffer.partition(b"\n")
        os.write(_answers, json.dumps(_fork(_REQUEST.decode(line))).encode() + b"\n")


def _import_ahead() -> None:
    """Import what every fork needs, without computing anything: threads do not survive a fork."""
    with contextlib.suppress(ImportError):
        import torch

        global _threads
        _threads = torch.get_num_threads()
        torch.set_num_threads(1)
        from flashbench import operations
        from flashbench.revisions import correctness  # noqa: F401

        for operation in operations.BUILT_IN.values():
            operation.import_ahead()
    from flashbench.revisions import load  # noqa: F401


def _end() -> NoReturn:
    kill_descendants()
    os._exit(0)


def _fork(request: CheckRequest) -> dict[str, str | int | None]:
    """The process's messages; with "code" if it ended early, None: stopped at the time limit. Its
    output is in the request's log."""
    try:
        with Path(request.log).open("wb") as file:
            return _run(request, Log(file.fileno()))
    except OSError as error:
        return {"unwritable": error.errno}


def _run(request: CheckRequest, log: Log) -> dict[str, str | int | None]:
    reader, writer = os.pipe()
    prints, printer = os.pipe()
    server = os.getpid()
    child = os.fork()
    if not child:
        with contextlib.suppress(BaseException):  # never return into the server
            os.close(reader)
            os.close(prints)
            os.close(_answers)
            _child(request, writer, printer, server)
        os._exit(1)
    os.close(writer)
    os.close(printer)
    messages, code = _watch(child, reader, prints, log, request)
    log.end()
    os.close(reader)
    os.close(prints)
    reply: dict[str, str | None] = {}
    for line in messages.splitlines():
        with contextlib.suppress(ValueError, TypeError):
            reply |= json.loads(line)
    # A revision can write there too: its messages are treated as mere text.
    words = {key: value and str(value) for key, value in reply.items() if key in _WORDS}
    return words | {"code": code}


def _watch(
    child: int, reader: int, prints: int, log: Log, request: CheckRequest
) -> tuple[bytes, int | None]:
    """The child's messages, and its exit code (negative: a signal; None: stopped)."""
    messages = b""
    opened = {reader, prints}
    timeout = request.timeout
    end = time.monotonic() + timeout
    last = end + timeout  # of the import and the calls, which are reported one after the other
    compiled = time.monotonic() + request.compiling
    code: int | None = None
    while True:
        ready, _, _ = select.select([*opened, 0], [], [], _STEP_SECONDS)
        if 0 in ready:  # no request precedes the answer: the client is gone
            _end()
        for pipe in opened.intersection(ready):
            part = os.read(pipe, _CHUNK)
            if not part:  # it closed its end, but may be alive
                opened.discard(pipe)
            elif pipe == prints:
                log.add(part)
            else:
                messages = (messages + part)[:_CHUNK]
                end = min(time.monotonic() + timeout, last)
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            break
        if time.monotonic() > end:
            if time.monotonic() > compiled or not jit.is_compiling(Path(request.import_root)):
                break
            end = last = time.monotonic() + timeout
    kill_descendants()  # and what it started
    for pipe in opened:
        os.set_blocking(pipe, False)
        with contextlib.suppress(BlockingIOError):
            while part := os.read(pipe, _CHUNK):
                if pipe == prints:
                    log.add(part)
                else:
                    messages = (messages + part)[:_CHUNK]
    return messages, code


def _child(request: CheckRequest, writer: int, printer: int, server: int) -> None:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with(server)
    os.dup2(printer, 1)
    os.dup2(printer, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(request.import_root)

    def say(**words: object) -> None:
        short = {key: value and str(value)[:_LONGEST] for key, value in words.items()}
        os.write(writer, json.dumps(short).encode() + b"\n")

    from flashbench.errors import InvalidInputError, NotMeasuredError
    from flashbench.revisions.load import load_callable

    import_root, spec, cases = Path(request.import_root), request.spec, request.cases
    jit.keep(import_root)
    before = jit.compilers()
    try:
        call = load_callable(import_root, spec, request.tree).call
    except NotMeasuredError as error:
        say(error=str(error))
        os._exit(0)
    if not _have_devices(request.cases):
        say(absent="cuda")
        os._exit(0)
    say(error=None, compilers=" ".join(sorted(jit.compilers() - before)))
    if request.correct or request.warm:
        from flashbench.measuring.problem import OperationError
        from flashbench.revisions.correctness import Watched, call_each, check_named, check_small

        try:
            operation = _operation(request.operation)
        except InvalidInputError as error:
            say(error=str(error))
            os._exit(0)
        if request.warm:
            call_each(call, cases, request.threads or _threads)
            os._exit(0)
        watched = Watched(request.ended, lambda case: say(at=case))
        try:
            if cases:
                found = check_named(call, spec, cases, watched)
            else:
                found = check_small(call, spec, operation, request.operation.cases, watched)
        except OperationError as error:
            say(error=str(error))
            os._exit(0)
        taken = bool(found.right) and not (cases and found.refused)
        refusal = "" if taken else found.refusal
        say(wrong=found.wrong, refused=refusal, checked=found.summary)
    os._exit(0)  # skip whatever the revision does at exit


def _operation(wanted: WhatIsComputed) -> "Operation":
    """Raises InvalidInputError for a project's that cannot be imported."""
    from flashbench import operations

    if ":" in wanted.name:
        from flashbench.operations.of_project import imported

        operations.know(imported(wanted.name, wanted.import_root))
    return operations.named(wanted.name)


def _have_devices(cases: list[str]) -> bool:
    if not any(name.endswith("-cuda") for name in cases):
        return True  # without torch, which an import alone does not need
    import torch

    return torch.cuda.is_available()
