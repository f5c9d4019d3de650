"""Run the checks of a level and of those below it, one after another."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from flashbench.errors import InvalidInputError
from flashbench.preflight.finding import (
    CannotRepair,
    Check,
    CheckLevel,
    Examined,
    Finding,
    Severity,
)
from flashbench.preflight.source import CHECKS as SOURCE_CHECKS
from flashbench.preflight.source.clean_clone import with_ignored_units
from flashbench.preflight.source.tree import read_tree
from flashbench.pyproject import up_to_repository

_PROJECT = ("pyproject.toml", ".git", "setup.py", "CMakeLists.txt")


@dataclass(frozen=True, slots=True)
class CheckRun:
    """One check that ran. skipped: why it could not look, or not everywhere, else ""."""

    level: CheckLevel
    name: str
    why: str
    findings: tuple[Finding, ...]
    skipped: str = ""
    seconds: float = 0.0


@dataclass
class PreflightReport:
    """What a preflight of a project found, in check order."""

    root: Path
    level: CheckLevel
    checks: list[CheckRun] = field(default_factory=list)
    fixed: list[str] = field(default_factory=list)  # what --fix did, one line each

    @property
    def errors(self) -> list[Finding]:
        return self._of("error")

    @property
    def warnings(self) -> list[Finding]:
        return self._of("warning")

    def named(self) -> frozenset[str]:
        """Checks that found an error."""
        return frozenset(one.check for one in self.errors)

    def _of(self, severity: Severity) -> list[Finding]:
        return [one for done in self.checks for one in done.findings if one.severity == severity]


def run(
    start: Path,
    level: CheckLevel,
    *,
    fix: bool = False,
    timeout: float = 1800.0,
    tell: Callable[[str], None] = lambda line: None,
) -> PreflightReport:
    """Check the project around `start` on `level` and those below it.

    fix: do what a finding offers to do, and look again. timeout: seconds for the build. tell: gets
    a line when something takes long. InvalidInputError if there is no project.
    """
    root = _root(start.absolute())
    report = PreflightReport(root, level)
    tree = with_ignored_units(read_tree(root))
    performer = _Performer(report, fix, tell)
    performer.perform("source", SOURCE_CHECKS, tree)
    if level == "source":
        return report
    from flashbench.preflight import build
    from flashbench.preflight.build.subject import BuildSubject

    tell(f"building HEAD from a clean export, for at most {timeout:g} s")
    subject = BuildSubject(tree, timeout, report.named)
    performer.perform("build", build.CHECKS, subject)
    if level == "device":
        from flashbench.builds import cache_directory
        from flashbench.preflight import device

        tell("asking the driver and torch")
        folders = [cache_directory(), Path.cwd()]
        answers = device.ask_machine(folders, subject.archs, subject.setting, report.named())
        performer.perform("device", device.CHECKS, answers)
    return report


@dataclass
class _Performer:
    """Runs the checks of a level and fills a report."""

    report: PreflightReport
    fix: bool
    tell: Callable[[str], None]

    def perform(
        self, level: CheckLevel, checks: Iterable[Check[Examined]], subject: Examined
    ) -> None:
        """Run each check on the subject. One that cannot run says why, and the others continue."""
        for check in checks:
            begun = monotonic()
            found, reasons = check.perform(subject)
            # Findings fixed by the same repair share it.
            repairs = dict.fromkeys(one.repair for one in found if one.repair) if self.fix else {}
            if repairs:
                self.tell(f"fixing: {check.name}")
                failed = self._repair(check.name, repairs)
                found, reasons = check.perform(subject)
                found += failed
            seconds, skipped = monotonic() - begun, "; ".join(reasons)
            self.report.checks.append(
                CheckRun(level, check.name, check.why, tuple(found), skipped, seconds)
            )

    def _repair(self, check: str, repairs: Iterable[Callable[[], str]]) -> list[Finding]:
        """Run the repairs; each that fails becomes a finding."""
        failed = []
        for repair in repairs:
            try:
                self.report.fixed.append(f"{check}: {repair()}")
            except CannotRepair as why:
                after = "flashbench preflight --fix  # again, once this is repaired"
                failed.append(Finding("--fix", str(why), after, check=check))
        return failed


def _root(start: Path) -> Path:
    """Find the nearest folder of this repository that holds the first project marker found at
    all."""
    for name in _PROJECT:
        for folder in up_to_repository(start):
            if (folder / name).exists():
                return folder
    raise InvalidInputError(
        f"{start}: no project here or above ({', '.join(_PROJECT)}); run it in a kernel project"
    )
