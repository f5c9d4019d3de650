"""Run flashbench's commands in forks of one process that has torch, and what they start too.

All else is as ever: each command, worker and checker is a process, and says what it says over the
same socket or pipe. Only the start of the interpreter and the import of torch, two seconds for each
worker of each launch, happen once. Started with `python -P forked.py ROOT`; reads a command a line,
in JSON, and answers with its exit code.
"""

import contextlib
import json
import os
import subprocess
import sys
import traceback
import types
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn


def serve() -> None:
    import scipy.stats
    import torch._dynamo

    from flashbench.measure import process, worker
    from flashbench.revisions import check, check_server, correctness

    # The checker, the verdict and the first call of a custom operator want them.
    del correctness, scipy, torch

    def fork_worker(command: list[str], **options: Any) -> "subprocess.Popen[bytes]":
        return _forked(worker.main, command, options["pass_fds"], options)

    def fork_checker(command: list[str], **options: Any) -> "subprocess.Popen[bytes]":
        return _forked(check_server.main, command, [], options)

    for module, fork in ((process, fork_worker), (check, fork_checker)):
        forking = types.SimpleNamespace(**vars(subprocess) | {"Popen": fork})
        module.subprocess = forking  # type: ignore[attr-defined]
    for line in sys.stdin:
        child = os.fork()
        if not child:
            _command(**json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def _command(
    arguments: list[str], directory: str, environment: dict[str, str], output: str
) -> NoReturn:
    from flashbench.cli import main

    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = environment["PYTHONPATH"].split(os.pathsep)  # as at a start
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    for handle, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(f"{output}/{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), handle)
    code: Any = 1
    try:
        main(arguments)
        code = 0
    except SystemExit as ended:
        code = ended.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _forked(
    main: Callable[..., None], command: list[str], kept: Sequence[int], options: dict[str, Any]
) -> "subprocess.Popen[bytes]":
    """`subprocess.Popen` of a process that does `main(*kept)` and never comes to its command."""
    work = partial(_work, main, kept, os.getpid(), options.get("env"))
    return subprocess.Popen(command, preexec_fn=work, **options)


def _work(
    main: Callable[..., None],
    kept: Sequence[int],
    parent: int,
    environment: dict[str, str] | None,
) -> NoReturn:
    from flashbench.parent import end_with

    # Popen waits until the child closes its end of a pipe, as it would by running a program.
    for handle in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        if handle > 2 and handle not in kept:
            with contextlib.suppress(OSError):  # the one that listed them
                os.close(handle)
    if environment is not None:
        os.environ.clear()
        os.environ.update(environment)
    end_with(parent)
    sys.path.insert(0, "")
    code = 1
    try:
        main(*kept)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    serve()
