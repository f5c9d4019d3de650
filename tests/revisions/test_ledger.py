"""What is kept of commits that were tried (flashbench/revisions/ledger.py)."""

from pathlib import Path

from msgspec.structs import replace

from flashbench.builds import BuildStatus
from flashbench.revisions import ledger


def tried(commit: str, status: BuildStatus, reason: str = "") -> ledger.RevisionOutcome:
    """The least that a record holds."""
    return ledger.RevisionOutcome(
        commit=commit, status=status, reason=reason, stage="build", build="k", toolchain="t"
    )


def test_failures_are_one_line_each(tmp_path: Path) -> None:
    """Status and first line of commits that could not be used; built ones are left out."""
    good, bad, silent = "a" * 40, "b" * 40, "c" * 40
    ledger.record(tmp_path, tmp_path, tried(good, "built"))
    ledger.record(tmp_path, tmp_path, tried(bad, "missing header", "no x.h\nincluded by y.cpp"))
    ledger.record(tmp_path, tmp_path, tried(silent, "compile error"))
    found = {bad: "missing header: no x.h", silent: "compile error"}
    assert ledger.failures(tmp_path, tmp_path) == found
    assert ledger.failures(tmp_path, tmp_path / "other") == {}


def test_known_is_not_written_again(tmp_path: Path) -> None:
    """An earlier outcome at the same or a later stage stays, even on a full disk."""
    commit = "a" * 40
    known = replace(tried(commit, "missing header", "no x.h"), stage="correct", when="then")
    ledger.record(tmp_path, tmp_path, known)
    (file,) = tmp_path.rglob("*.json")
    assert '"tried":"then"' in file.read_text()  # the name in records of an older flashbench
    ledger.record(tmp_path, tmp_path, tried(commit, "missing header", "no x.h"))
    assert list(ledger.everything(tmp_path, tmp_path)) == [known]
    ledger.record(tmp_path, tmp_path, tried(commit, "compile error"))
    (found,) = ledger.everything(tmp_path, tmp_path)
    assert found.status == "compile error"
