"""Tests with pytest-benchmark of two checkouts: each launch is a pair of pytest processes."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from flashbench.errors import InvalidInputError, NotMeasuredError
from flashbench.other_tools import pytest_benchmark
from flashbench.process_group import run
from flashbench.suites.checkouts import Checkout
from flashbench.suites.document import SuiteCase, SuiteResult

_LINES = 3  # of pytest's last words
_SECONDS = 0.25  # of a test's samples, a quarter of the default: launches repeat them


def suite_of(tests: Sequence[str], start: Path, repository: Path) -> tuple[str, list[str]]:
    """The folder of the tests' files, and their node ids, relative to the repository. Raises
    InvalidInputError for a file that is not there."""
    found, folders = [], []
    for test in tests:
        file, colons, rest = test.partition("::")
        path = (start / file).resolve()
        if not path.exists() or not path.is_relative_to(repository):
            raise InvalidInputError(f"--pytest {test}: no such file in {repository}")
        found.append(f"{path.relative_to(repository).as_posix()}{colons}{rest}")
        folders.append(path if path.is_dir() else path.parent)
    common = Path(os.path.commonpath(folders))
    return common.relative_to(repository).as_posix(), found


class PytestPair:
    """Both revisions' tests."""

    def __init__(
        self, a: Checkout, b: Checkout, tests: Sequence[str], scratch: Path, timeout: float
    ) -> None:
        """tests: node ids, relative to a checkout. timeout: seconds of a test."""
        self._checkouts = {"A": a, "B": b}
        self._tests, self._scratch, self._timeout = list(tests), scratch, timeout
        self._known = False

    def __enter__(self) -> "PytestPair":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def discover(self) -> tuple[list[SuiteCase], list[str]]:
        """The benchmarks among the tests, by running them in B once. Raises NotMeasuredError."""
        found, said = self._run("B", self._tests)
        if not found:
            raise NotMeasuredError(f"pytest has no benchmark: {said}")
        return [SuiteCase(name=name) for name in sorted(found)], []

    def launch(self, index: int, cases: Sequence[SuiteCase]) -> Iterator[SuiteResult]:
        """Run the tests of these cases in both revisions, one after the other."""
        names = [case.name for case in cases]
        found = {side: self._run(side, names) for side in ("AB" if index % 2 == 0 else "BA")}
        for name in names:
            missing = [side for side in "AB" if name not in found[side][0]]
            if missing:
                side = missing[0]
                reason = found[side][1] or "it has no result"
                yield SuiteResult(case=name, status="error", reason=reason, side=side)
            else:
                a, b = found["A"][0][name], found["B"][0][name]
                yield SuiteResult(case=name, a=[a], b=[b])

    def _run(self, side: str, tests: Sequence[str]) -> tuple[dict[str, list[float]], str]:
        """Samples by test, and what pytest said last if it failed."""
        checkout, out = self._checkouts[side], self._scratch / f"{side}.json"
        out.unlink(missing_ok=True)
        options = ["-q", "-p", "no:cacheprovider", "--benchmark-only", f"--benchmark-json={out}"]
        options.append(f"--benchmark-max-time={_SECONDS}")
        # In a worker of pytest-xdist, pytest-benchmark would measure nothing.
        environment = {
            key: value
            for key, value in checkout.environment().items()
            if not key.startswith("PYTEST_XDIST")
        }
        timeout = self._timeout * max(1, len(tests))
        command = [sys.executable, "-m", "pytest", *options, *tests]
        try:
            done = run(command, timeout, folder=checkout.folder, environment=environment)
        except subprocess.TimeoutExpired:
            return {}, f"pytest took more than {timeout:g} s"
        words = "" if done.returncode == 0 else _words(done.stdout + done.stderr)
        if not out.is_file() or not out.stat().st_size:
            return {}, words or "no benchmark ran"
        found = pytest_benchmark.read(out, json.loads(out.read_text()))
        samples = {one.name: [float(x) for x in one.samples[0]] for one in found.benchmarks}
        return samples, words


def _words(said: str) -> str:
    """The errors that pytest printed, in one line."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("E  ", "ERROR", "FAILED"))]
    return "; ".join((errors or lines)[-_LINES:])[:500]
