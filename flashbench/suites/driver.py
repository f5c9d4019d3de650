"""Runs an asv suite's benchmarks in a revision's process, by asv_runner's own discovery and timing.

A script that imports nothing of flashbench: the revision may be one of flashbench itself. It serves
JSON lines on a socket. Every benchmark runs in a fork, as under asv, which talks to the parent in
its place: only one of the three speaks at any moment.
"""

import contextlib
import ctypes
import json
import math
import os
import pickle
import re
import runpy
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

_Request = dict[str, Any]

_IMPORTED = runpy.run_path(str(Path(__file__).with_name("imported.py")))
_OUTPUT = 4000  # characters of a failed benchmark's output


class _Channel:
    def __init__(self, handle: int) -> None:
        self._socket = socket.socket(fileno=handle)
        self._socket.set_inheritable(False)

    def receive(self) -> _Request | None:
        """The next request; None if the parent is gone. Reads no more than that line, which a fork
        would otherwise lack."""
        line = b""
        while not line.endswith(b"\n"):
            part = self._socket.recv(1 << 16)
            if not part:
                return None
            line += part
        request: _Request = json.loads(line)
        return request

    def send(self, **answer: Any) -> None:
        self._socket.sendall(json.dumps(answer).encode() + b"\n")


def main() -> None:
    parent = int(sys.argv[2])
    _end_with(parent)
    channel = _Channel(int(sys.argv[1]))
    setup = channel.receive()
    if setup is None:
        return
    suite = setup["suite"]
    try:
        from asv_runner._aux import update_sys_path
    except ImportError:
        channel.send(fatal="asv_runner is not installed; install it: python -m pip install asv")
        return
    update_sys_path(suite)
    channel.send(ok=True)
    while (request := channel.receive()) is not None:
        if request["do"] == "origins":
            channel.send(**_origins(request))
        else:
            work = {"discover": _discover, "cache": _make_cache, "measure": _measure}
            _forked(channel, work[request["do"]], suite, request)


def _end_with(parent: int) -> None:
    """Have the kernel kill this process when its parent dies."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def _forked(
    channel: _Channel,
    work: "Callable[[_Channel, str, _Request], dict[str, Any]]",
    suite: str,
    request: _Request,
) -> None:
    """Do the work in a fork; if it dies, say how, and what it printed."""
    if request["do"] == "measure":
        _import_ahead(suite, request["name"])
    server = os.getpid()
    with tempfile.TemporaryFile() as output:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                _end_with(server)
                for stream in (1, 2):
                    os.dup2(output.fileno(), stream)
                os.chdir(request["folder"])
                channel.send(**work(channel, suite, request))
                code = 0
            except BaseException as error:
                traceback.print_exc()
                with contextlib.suppress(OSError):
                    channel.send(error=_line(error))
                    code = 0
            finally:
                with contextlib.suppress(Exception):
                    sys.stdout.flush()
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code != 0:
            size = output.seek(0, os.SEEK_END)
            output.seek(max(0, size - _OUTPUT))
            lines = output.read().decode(errors="replace").strip().splitlines()
            channel.send(died=code, last=lines[-1] if lines else "")


def _line(error: BaseException) -> str:
    first = (str(error).strip() or "no reason given").splitlines()[0]
    return f"{type(error).__name__}: {first}"[:500]


def _import_ahead(suite: str, name: str) -> None:
    """Import the benchmark's module once, for all forks. What fails fails again in the fork."""
    import importlib

    root, parts = Path(suite).name, name.split(".")
    for count in range(len(parts) - 1, 0, -1):
        if Path(suite, *parts[:count]).with_suffix(".py").is_file():
            with contextlib.suppress(BaseException):
                importlib.import_module(".".join([root, *parts[:count]]))
            return


def _discover(channel: _Channel, suite: str, request: _Request) -> dict[str, Any]:
    """The benchmarks whose names the pattern finds, with their parameters. modules: to import, by
    dotted names below the suite."""
    from asv_runner import discovery

    broken: list[list[str]] = []
    discovery.disc_modules = lambda name, ignore_import_errors=False: _modules(
        name, request["modules"], broken
    )
    pattern, found = re.compile(request["pattern"]), []
    for benchmark in discovery.disc_benchmarks(suite):
        whole = pattern.search(benchmark.name)
        for index, name in _expanded(benchmark):
            if whole or pattern.search(name):
                found.append(
                    {
                        "name": name,
                        "benchmark": benchmark.name,
                        "index": index,
                        "kind": benchmark.type,
                        "unit": str(benchmark.unit),
                        "cache": benchmark.setup_cache_key or "",
                        "timeout": float(benchmark.timeout or 0),
                        "cache_timeout": float(benchmark.setup_cache_timeout or 0),
                    }
                )
    return {"found": found, "broken": broken}


def _modules(root: str, names: list[str], broken: list[list[str]]) -> Iterator[ModuleType]:
    """A replacement for asv's walk over all modules, which ends at the first that fails to
    import."""
    import importlib

    for name in names:
        try:
            yield importlib.import_module(f"{root}.{name}" if name else root)
        except Exception as error:
            broken.append([name or root, _line(error)])


def _expanded(benchmark: Any) -> list[tuple[int | None, str]]:
    """asv's index of every combination of parameters, and its name."""
    import itertools

    if not benchmark.params:
        return [(None, benchmark.name)]
    combinations = itertools.product(*benchmark.params)
    return [(i, f"{benchmark.name}({', '.join(one)})") for i, one in enumerate(combinations)]


def _make_cache(channel: _Channel, suite: str, request: _Request) -> dict[str, Any]:
    """asv's setup_cache: it leaves cache.pickle in the folder."""
    from asv_runner.discovery import get_benchmark_from_name

    cache = get_benchmark_from_name(suite, request["name"]).do_setup_cache()
    Path("cache.pickle").write_bytes(pickle.dumps(cache))
    return {"ok": True}


def _measure(channel: _Channel, suite: str, request: _Request) -> dict[str, Any]:
    """Set one benchmark up, then run it as often as the parent asks."""
    from asv_runner.benchmarks.mark import SkipNotImplemented
    from asv_runner.discovery import get_benchmark_from_name

    index = request["index"]
    suffix = "" if index is None else f"-{index}"
    benchmark = get_benchmark_from_name(suite, request["name"] + suffix)
    cache = None
    if benchmark.setup_cache_key is not None:
        # As asv does: the suite's own, written by it a moment ago into a folder of ours.
        cache = pickle.loads(Path("cache.pickle").read_bytes())  # noqa: S301
    benchmark.set_cache(cache)
    skips = False
    try:
        skips = benchmark.do_setup()
        if skips:
            return {"skipped": "its setup raised NotImplementedError, or skips these parameters"}
        if getattr(benchmark, "repeat", None) == 0:  # asv's default, with less patience
            benchmark.repeat = (1, 5, request["seconds"])
        channel.send(ready=True)
        while (asked := channel.receive()) is not None and asked["do"] == "run":
            try:
                result = benchmark.do_run()
            except SkipNotImplemented as why:
                return {"skipped": _line(why)}
            values = result["samples"] if isinstance(result, dict) else [result]
            values = [float(value) for value in values]
            if any(map(math.isnan, values)):
                return {"skipped": "its result is NaN"}
            channel.send(values=values)
    finally:
        with contextlib.suppress(*([Exception] if skips else [])):  # of what was never set up
            benchmark.do_teardown()
    return {"done": True}


def _origins(request: _Request) -> dict[str, Any]:
    """Modules imported from the working tree, and whether any but the suite's is the revision's."""
    place, suite = request["place"] + os.sep, request["suite"] + os.sep
    own = (one for one in _IMPORTED["files"]().values() if one.startswith(place))
    return {
        "outside": _IMPORTED["outside"](request["tree"], request["checkouts"]),
        "own": any(not one.startswith(suite) for one in own),
    }


main()
