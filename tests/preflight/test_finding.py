"""A check keeps its findings, and reports what it could not inspect."""

from collections.abc import Iterator
from pathlib import Path

from flashbench.preflight import Check, Finding, PreflightReport
from flashbench.preflight.finding import CannotCheck, Severity
from flashbench.preflight.perform import CheckRun
from flashbench.views import preflight


def _look(reasons: list[str]) -> Iterator[Finding | CannotCheck]:
    yield Finding("a.cu:1", "is wrong", "git grep wrong")
    yield from map(CannotCheck, reasons[:-1])
    raise CannotCheck(reasons[-1])


def test_findings_survive_what_a_check_cannot_look_at() -> None:
    """Whether it leaves out a part or ends there; each reason is printed once."""
    check = Check("sizes", "why", _look)
    findings, reasons = check.perform(["b.cu: under macros", "b.cu: under macros", "no tool"])
    assert [(one.check, one.where) for one in findings] == [("sizes", "a.cu:1")]
    assert reasons == ["b.cu: under macros", "no tool"]


def test_one_place_with_one_fix_is_one_finding() -> None:
    """Running the same `sed -i 2d` for each would delete further lines; the gravest is named."""
    places: list[tuple[str, Severity]] = [
        ("a.h:2", "warning"),
        ("b.h:1", "warning"),
        ("a.h:2", "error"),
        ("a.h:2", "warning"),
    ]
    found = [
        Finding(where, f"no. {number}", f"sed -i {where[-1]}d", severity)
        for number, (where, severity) in enumerate(places)
    ]
    check: Check[list[Finding]] = Check("macros", "why", lambda given: given)
    findings, _ = check.perform(found)
    assert [(one.found, one.severity) for one in findings] == [
        ("no. 2", "error"),
        ("no. 1", "warning"),
    ]


def test_what_was_not_looked_at_is_never_ok(tmp_path: Path) -> None:
    """A check that found one thing and left out another is named by both."""
    found = (Finding("a.cu:1", "is wrong", "git grep wrong", check="sizes"),)
    checks = [
        CheckRun("build", "sizes", "why", found, "no tool"),
        CheckRun("build", "spills", "why", (), "no tool"),
        CheckRun("build", "pip", "why", ()),
    ]
    report = PreflightReport(tmp_path, "build", checks)
    assert preflight.text(report).splitlines()[-2:] == [
        "ok: pip",
        "not checked: sizes, spills: no tool",
    ]
    statuses = [(one["status"], one["reason"]) for one in preflight.data(report)["checks"]]
    assert statuses == [("found", "no tool"), ("not checked", "no tool"), ("ok", "")]
