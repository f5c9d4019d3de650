"""Tests with pytest-benchmark of two checkouts: a launch is two pytest processes of each."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

from flashbench.errors import InvalidInputError, NotMeasuredError
from flashbench.other_tools import pytest_benchmark
from flashbench.process_group import run
from flashbench.suites.checkouts import HOW_TO_FIND, IMPORTED_OUTSIDE, Checkout
from flashbench.suites.suite_file import SuiteCase, SuiteResult

_LINES = 3  # of pytest's last words
_SECONDS = 0.125  # of a test's samples, an eighth of the default: passes and launches repeat them
# What addopts of a project must not turn off: a benchmark runs alone, and all run.
_OPTIONS = ["-q", "-p", "no:cacheprovider", "--benchmark-only", "--benchmark-enable", "--maxfail=0"]
# What pytest's own file lacks: the folder that its ids are relative to, which it chooses itself,
# and modules that came from the working tree, as those of some editable installs do.
_PLUGIN = "flashbench_origins"
_PLUGIN_TEXT = """import runpy

def pytest_benchmark_update_json(config, output_json):
    imported = runpy.run_path({imported!r})
    output_json["rootdir"] = str(config.rootpath)
    output_json["outside"] = imported["outside"]({tree!r}, {checkouts!r})
"""


@dataclass(frozen=True)
class _Pass:
    """One process of pytest. samples: by test; words: what it said last if it failed."""

    samples: dict[str, list[float]]
    words: str


def folder_of(tests: Sequence[str], start: Path) -> Path:
    """The folder of the tests' files. Raises InvalidInputError for a file that is not there."""
    folders = []
    for test in tests:
        path = (start / test.partition("::")[0]).resolve()
        if not path.exists():
            raise InvalidInputError(f"{test}: no such file: {path}")
        folders.append(path if path.is_dir() else path.parent)
    return Path(os.path.commonpath(folders))


def node_ids(tests: Sequence[str], start: Path, home: Path) -> list[str]:
    """The tests' node ids relative to the folder `home`."""
    return [_moved(test, start.resolve(), home) for test in tests]


def _moved(node_id: str, start: Path, home: Path) -> str:
    """A node id relative to `start`, relative to `home`."""
    file, colons, rest = node_id.partition("::")
    return f"{Path(os.path.relpath(start / file, home)).as_posix()}{colons}{rest}"


class PytestPair:
    """Both revisions' tests. together: results that come at once."""

    together = 20  # tests in a process: the passes of a test are not far apart

    def __init__(
        self,
        a: Checkout,
        b: Checkout,
        tests: Sequence[str],
        scratch: Path,
        tree: Path,
        timeout: float,
    ) -> None:
        """tests: node ids, relative to a checkout's home. scratch: an empty folder beside the
        checkouts. tree: the working tree. timeout: seconds of a test."""
        self._checkouts = {"A": a, "B": b}
        self._tests, self._scratch, self._timeout = list(tests), scratch, timeout
        self._tree = tree

    def __enter__(self) -> "PytestPair":
        places = {
            "imported": Path(__file__).with_name("imported.py"),
            "tree": self._tree,
            "checkouts": self._scratch.parent,
        }
        text = _PLUGIN_TEXT.format(**{name: str(one.resolve()) for name, one in places.items()})
        (self._scratch / f"{_PLUGIN}.py").write_text(text)
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def discover(self) -> tuple[list[SuiteCase], list[str]]:
        """The benchmarks among the tests, by running them in B once. Raises NotMeasuredError."""
        found = self._run("B", self._tests)
        if not found.samples:
            why = f"; {HOW_TO_FIND}" if "ModuleNotFoundError" in found.words else ""
            raise NotMeasuredError(f"pytest has no benchmark: {found.words}{why}")
        return [SuiteCase(name=name) for name in sorted(found.samples)], []

    def launch(self, index: int, cases: Sequence[SuiteCase]) -> Generator[SuiteResult]:
        """Run the tests of these cases in both revisions, some at a time: A B B A, or B A A B. What
        Ctrl-C leaves of these are whole pairs."""
        names = [case.name for case in cases]
        for start in range(0, len(names), self.together):
            yield from self._measured(index, names[start : start + self.together])

    def _measured(self, index: int, names: Sequence[str]) -> Generator[SuiteResult]:
        order = "AB" if index % 2 == 0 else "BA"
        passes: dict[str, list[_Pass]] = {"A": [], "B": []}
        interrupted = None
        try:
            for side in (*order, *order[::-1]):
                passes[side].append(self._run(side, names))
        except KeyboardInterrupt as pressed:
            interrupted = pressed
            whole = min(map(len, passes.values()))  # of A B A one pair is worth keeping
            passes = {side: found[:whole] for side, found in passes.items()}
        for name in names if passes["A"] else ():
            lacking = [
                (side, one.words)
                for side in order
                for one in passes[side]
                if name not in one.samples
            ]
            if lacking:
                side, words = lacking[0]
                reason = words or "it has no result"
                yield SuiteResult(case=name, status="error", reason=reason, side=side)
            else:
                a, b = ([one.samples[name] for one in passes[side]] for side in "AB")
                yield SuiteResult(case=name, a=a, b=b)
        if interrupted is not None:
            raise interrupted

    def _run(self, side: str, tests: Sequence[str]) -> "_Pass":
        checkout, out = self._checkouts[side], self._scratch / f"{side}.json"
        out.unlink(missing_ok=True)
        options = [*_OPTIONS, f"--benchmark-max-time={_SECONDS}", f"--benchmark-json={out}"]
        options += ["-p", _PLUGIN]
        if importlib.util.find_spec("xdist"):
            options += ["-n", "0"]
        # In a worker of pytest-xdist, pytest-benchmark would measure nothing.
        environment = {
            key: value
            for key, value in checkout.environment(checkout.home, self._scratch).items()
            if not key.startswith("PYTEST_XDIST")
        }
        timeout = self._timeout * max(1, len(tests))
        # -P: packages of the checkout that a build has left elsewhere must not hide the built ones.
        command = [sys.executable, "-P", "-m", "pytest", *options, *tests]
        try:
            done = run(command, timeout, folder=checkout.home, environment=environment)
        except subprocess.TimeoutExpired:
            return _Pass({}, f"pytest took more than {timeout:g} s")
        words = "" if done.returncode == 0 else _words(done.stdout + done.stderr)
        if not out.is_file() or not out.stat().st_size:
            return _Pass({}, words or "no benchmark ran")
        document = json.loads(out.read_text())
        if outside := document["outside"]:
            raise NotMeasuredError(IMPORTED_OUTSIDE.format(side, outside[0], self._tree))
        found = pytest_benchmark.read(out, document)
        start, home = Path(document["rootdir"]), checkout.home.resolve()
        samples = {
            _moved(one.name, start, home): [float(x) for x in one.samples[0]]
            for one in found.benchmarks
        }
        return _Pass(samples, words)


def _words(said: str) -> str:
    """The errors that pytest printed, in one line."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("E  ", "ERROR", "FAILED"))]
    return "; ".join((errors or lines)[-_LINES:])[:500]
