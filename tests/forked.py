"""Run flashbench's commands in forks of one process that has torch, and what they start too.

All else is as ever: each command, task, worker and checker is a process, and says what it says over
the same socket or pipe. Only the start of the interpreter and the import of torch, two seconds for
each worker of each launch, happen once. Started by forks.py as `python -P forked.py ROOT MODULE`,
with the socket of its requests as stdin: a packet each, with the descriptors of the socket that is
answered (with the process's number, later its exit status) and of the streams.
"""

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import selectors
import signal
import socket
import subprocess
import sys
import traceback
import types
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

_LONGEST_REQUEST = 1 << 20
# Modules that import what a machine may lack, and a program.
_LEFT_OUT = ("flashbench.history.asv_env", "flashbench.pytest_plugin", "flashbench.suites.driver")
_replaced: list[Any] = []  # streams, kept so that what is in them is not written twice


def serve() -> None:
    import scipy.special
    import torch

    import flashbench

    # A command would import most of them, for 0.05 to 0.3 s.
    for module in pkgutil.walk_packages(flashbench.__path__, "flashbench."):
        if not module.name.startswith(_LEFT_OUT) and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    from flashbench import worker_main
    from flashbench.fleet import local
    from flashbench.measuring import forks
    from flashbench.operations import of_project
    from flashbench.revisions import check, check_process

    del scipy, torch  # for workers and checkers

    mains = {
        forks.WORKER: worker_main.main,
        forks.SERVER: worker_main.serve,
        check.SERVER: check_process.serve,
    }

    def fork_worker(command: list[str], **options: Any) -> "subprocess.Popen[bytes]":
        main = next(mains[code] for code in mains if any(one.endswith(code) for one in command))
        return _forked(partial(main, *options["pass_fds"]), command, options)

    def fork_task(command: list[str], **options: Any) -> "subprocess.Popen[str]":
        # Behind `python -P -c CODE ROOT`; flashbench looks after its parent itself.
        return _forked(partial(_main, command[5:]), command, options, ends_with_parent=False)

    def fork_answer(
        command: list[str], *, input: bytes, timeout: float, **_: Any
    ) -> "subprocess.CompletedProcess[bytes]":
        answer = partial(of_project.answer, *command[5:])
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        with _forked(answer, command, pipes) as process:
            said = process.communicate(input, timeout)
        return subprocess.CompletedProcess(command, process.returncode, *said)

    for module, name, fork in (
        (forks, "Popen", fork_worker),
        (local, "Popen", fork_task),
        (of_project, "run", fork_answer),
    ):
        forking = types.SimpleNamespace(**vars(subprocess) | {name: fork})
        module.subprocess = forking  # type: ignore[attr-defined]
    gc.freeze()  # forks would look through all of torch for garbage, and copy its pages
    _answer(socket.socket(fileno=os.dup(0)))
    os._exit(0)  # taking torch down would last a second


def _answer(requests: socket.socket) -> None:
    """Fork for each request until there are no more; meanwhile say which forks have ended."""
    selector = selectors.DefaultSelector()
    selector.register(requests, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is requests:
                request, handles, _, _ = socket.recv_fds(requests, _LONGEST_REQUEST, 4)
                if not request:
                    return
                child = os.fork()
                if not child:
                    _command(handles[1:], **json.loads(request))
                for handle in handles[1:]:
                    os.close(handle)
                answers = socket.socket(fileno=handles[0])
                answers.send(str(child).encode())
                selector.register(os.pidfd_open(child), selectors.EVENT_READ, (child, answers))
            else:
                child, answers = key.data
                code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                selector.unregister(key.fileobj)
                os.close(key.fd)
                with answers, contextlib.suppress(BrokenPipeError):  # nobody asked
                    answers.send(str(code).encode())


def _command(
    handles: list[int],
    arguments: list[str],
    directory: str,
    environment: dict[str, str],
    script: str,
    streams: list[bool],
) -> NoReturn:
    for number, given in enumerate(streams):
        if given:
            os.dup2(handles.pop(0), number)
        else:
            os.close(number)
    os.chdir(directory)
    _begin(environment)
    sys.path[:0] = environment["PYTHONPATH"].split(os.pathsep)
    _end(partial(_main, arguments, script))


def _main(arguments: list[str], script: str = "") -> None:
    from flashbench.cli import main

    sys.argv = ["flashbench", *arguments]
    if script:
        exec(script, {"__name__": "__main__"})  # noqa: S102 - a test's own
    else:
        main(arguments)


def _forked(
    main: Callable[[], None],
    command: list[str],
    options: dict[str, Any],
    ends_with_parent: bool = True,
) -> "subprocess.Popen[Any]":
    """`subprocess.Popen` of a process that does `main()` and never comes to its command."""
    # A signal must not come while Python does what libraries want done after a fork: that would
    # swallow the exception of its handler.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    parent = os.getpid() if ends_with_parent else 0
    kept = options.get("pass_fds", ())
    work = partial(_work, main, kept, parent, options.get("env") or dict(os.environ), mask)
    try:
        return subprocess.Popen(command, preexec_fn=work, **options)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _work(
    main: Callable[[], None],
    kept: Sequence[int],
    parent: int,
    environment: dict[str, str],
    mask: set[signal.Signals],
) -> NoReturn:
    from flashbench.end_with_parent import end_with

    _begin(environment, kept)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    if parent:
        end_with(parent)
    sys.path.insert(0, "")
    _end(main)


def _begin(environment: dict[str, str], kept: Sequence[int] = ()) -> None:
    """Be as a process that has just started, with these descriptors beside its streams."""
    # Popen waits until the child closes its end of a pipe, as it would by running a program.
    for handle in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        if handle > 2 and handle not in kept:
            with contextlib.suppress(OSError):  # the one that listed them
                os.close(handle)
    os.environ.clear()
    os.environ.update(environment)
    _replaced.extend((sys.stdin, sys.stdout, sys.stderr))
    sys.stdin = sys.__stdin__ = _stream(0, "r")  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _stream(1, "w")  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _stream(2, "w")  # type: ignore[misc]


def _stream(number: int, mode: str) -> Any:
    """As Python makes it when it starts: None where the descriptor is closed."""
    try:
        os.fstat(number)
    except OSError:
        return None
    errors = "backslashreplace" if number == 2 else "strict"
    return open(number, mode, encoding="utf-8", errors=errors, closefd=False)


def _end(main: Callable[[], None]) -> NoReturn:
    """Do `main()` and exit as Python would."""
    code: Any = 1
    try:
        main()
        code = 0
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.__stdout__, sys.stdout, sys.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.flush()
        os._exit(code)


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    if sys.argv[2]:
        importlib.import_module(sys.argv[2])
    serve()
