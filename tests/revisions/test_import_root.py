"""What is known of an import root is tried again where a failure may be gone, and nowhere else."""

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flashbench.builds import toolchain
from flashbench.revisions import import_root
from flashbench.revisions.check import CallResult, LoadResult

SMALL: tuple[str, ...] = ()
A, B = ("b1-h1-q8-d8-fp32-full-cpu",), ("b1-h1-q8-d16-fp32-full-cpu",)

RIGHT = CallResult("built", "", "b1-h2-q64-d64-fp32-full-cpu")


class Checks:
    """In place of a Checker: `wrong` cases fail, as a time-out where there is a limit."""

    def __init__(self, *wrong: Sequence[str]) -> None:
        self.wrong = wrong
        self.timeout = 10.0
        self.status = "wrong result"
        self.made: list[Any] = []

    def loads(self, *_: Any) -> LoadResult:
        self.made.append("loads")
        return LoadResult("built")

    def computes(
        self, import_root: Path, spec: str, log: Path, cases: Sequence[str], operation: object
    ) -> CallResult:
        self.made.append(cases)
        status: Any = self.status
        return CallResult(status, "max error 1") if cases in self.wrong else RIGHT


@pytest.fixture
def look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Check an import root in an environment; returns the checker's calls and the result."""
    directory = tmp_path / "site-key"
    directory.mkdir()
    (directory / "site.json").write_text("{}")

    def run(checks: Checks, environment: str, cases: Sequence[str]) -> tuple[list[Any], str]:
        monkeypatch.setattr(toolchain, "environment_digest", lambda: environment)
        checks.made = []
        checker: Any = checks
        record = import_root.checked(
            directory, "kernel:f", checker, correct=True, retry_failed=False, cases=cases
        )
        assert record.reused == (not checks.made)
        return checks.made, record.results[import_root.named(cases)].status

    return run


@pytest.mark.parametrize("other", [SMALL, B])
def test_a_failure_is_tried_again_with_other_packages(look, other: Sequence[str]) -> None:  # type: ignore[no-untyped-def]
    """Even if other cases were tried in between; correct ones are not retried."""
    checks = Checks(A)
    assert look(checks, "one", A) == (["loads", A], "wrong result")
    assert look(checks, "two", other) == ([other], "built")
    checks.wrong = ()
    assert look(checks, "one", A) == ([], "wrong result")
    assert look(checks, "two", A) == ([A], "built")
    assert look(checks, "one", other) == ([], "built")
    assert look(checks, "three", A) == ([], "built")


def test_a_time_out_is_tried_again_with_more_time(look) -> None:  # type: ignore[no-untyped-def]
    """By the time that those cases had, whatever others had since."""
    checks = Checks(A)
    checks.status = "timeout"
    assert look(checks, "one", A)[1] == "timeout"
    assert look(checks, "one", A)[0] == []
    checks.timeout = 20.0
    assert look(checks, "one", B) == ([B], "built")
    assert look(checks, "one", A) == ([A], "timeout")


def test_records_of_earlier_versions_are_read(tmp_path: Path) -> None:
    """Results that do not say where they were tried count as none."""
    old = {"loaded": True, "result": "wrong result", "named": {"a": ["wrong result", "words"]}}
    (tmp_path / "site.json").write_text(json.dumps(old | {"environment": "one"}))
    checker: Any = SimpleNamespace(timeout=1.0, computes=lambda *_: RIGHT)
    record = import_root.checked(
        tmp_path, "kernel:f", checker, correct=True, retry_failed=False, cases=A
    )
    assert (record.results[import_root.named(A)].status, record.reused) == ("built", False)
