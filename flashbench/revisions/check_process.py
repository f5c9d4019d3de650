"""The process that checks one import root, forked from one that has imported torch. A revision's
code runs only here; `Checker` watches it.

The request is a JSON line on the socket, as is each answer.
"""

import contextlib
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from flashbench.errors import FlashbenchError
from flashbench.measuring import fork_server
from flashbench.revisions import jit
from flashbench.revisions.computed import ATTENTION_BY_DEFAULT, WhatIsComputed

if TYPE_CHECKING:
    from flashbench.operations import Operation

_LONGEST = 5000  # characters of an error; JSON makes at most 12 bytes of one


class CheckRequest(msgspec.Struct, frozen=True):
    """correct: call the callable and check what it returns; warm: only call it, on `threads` of
    torch. ended: cases that ended their process, and how."""

    import_root: str
    spec: str
    tree: str = ""
    correct: bool = False
    warm: bool = False
    cases: list[str] = []
    operation: WhatIsComputed = ATTENTION_BY_DEFAULT
    threads: int | None = None
    ended: dict[str, str] = {}


_REQUEST = msgspec.json.Decoder(CheckRequest)
_threads = 1  # torch's own choice


def serve(handle: int) -> None:
    """Fork a process for each request from this socket. Does what every fork needs, on one thread:
    threads do not survive a fork."""
    with contextlib.suppress(ImportError):
        import torch

        global _threads
        _threads = torch.get_num_threads()
        torch.set_num_threads(1)
        from flashbench import operations
        from flashbench.measuring import vector_math
        from flashbench.revisions import correctness  # noqa: F401

        vector_math.choose_kernels()

        for operation in operations.BUILT_IN.values():
            operation.import_ahead()
    from flashbench.revisions import load  # noqa: F401

    fork_server.main(handle, main, sweeps=True)


def main(handle: int) -> None:
    """Check what the first line on the socket requests."""
    connection = socket.socket(fileno=handle)
    connection.set_inheritable(False)
    request = _REQUEST.decode(connection.makefile("rb").readline())
    os.chdir(request.import_root)

    def say(**words: object) -> None:
        short = {key: value and str(value)[:_LONGEST] for key, value in words.items()}
        connection.sendall(json.dumps(short).encode() + b"\n")

    try:
        _check(request, say)
    except FlashbenchError as error:
        say(error=str(error))


def _check(request: CheckRequest, say: Callable[..., None]) -> None:
    from flashbench.revisions.load import load_callable

    import_root, spec, cases = Path(request.import_root), request.spec, request.cases
    jit.keep(import_root)
    before = jit.compilers()
    call = load_callable(import_root, spec, request.tree).call
    if not _have_devices(cases):
        say(absent="cuda")
        return
    say(error=None, compilers=" ".join(sorted(jit.compilers() - before)))
    if not (request.correct or request.warm):
        return
    from flashbench.revisions.correctness import Watched, call_each, check_named, check_small

    operation = _operation(request.operation)
    if request.warm:
        call_each(call, cases, request.threads or _threads)
        return
    watched = Watched(request.ended, lambda case: say(at=case))
    if cases:
        found = check_named(call, spec, cases, watched)
    else:
        found = check_small(call, spec, operation, request.operation.cases, watched)
    taken = bool(found.right) and not (cases and found.refused)
    say(wrong=found.wrong, refused="" if taken else found.refusal, checked=found.summary)


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
