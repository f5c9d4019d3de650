"""The view of `flashbench preflight`: each finding with why it matters and its fix."""

from typing import Any

from flashbench.preflight import PreflightReport
from flashbench.render.escape import printable


def text(report: PreflightReport) -> str:
    """For readers: findings first, then checks that passed or could not run.

    A fix has its own unwrapped line, so it can be copied.
    """
    lines = [_headline(report), ""]
    for done in report.checks:
        for finding in done.findings:
            lines += [
                f"{finding.severity.upper()}  {finding.check}: {finding.where}",
                f"  {finding.found}",
                f"  why: {done.why}",
                f"  fix: {finding.fix}",
                "",
            ]
    lines += [f"fixed: {line}" for line in report.fixed]
    fine = [done.name for done in report.checks if not done.findings and not done.skipped]
    if fine:
        lines.append(f"ok: {', '.join(fine)}")
    skipped: dict[str, list[str]] = {}
    for done in report.checks:
        if done.skipped:
            skipped.setdefault(done.skipped, []).append(done.name)
    lines += [f"not checked: {', '.join(names)}: {reason}" for reason, names in skipped.items()]
    return "\n".join(printable(line) for line in lines).rstrip("\n") + "\n"


def data(report: PreflightReport) -> dict[str, Any]:
    """For machines."""
    return {
        "project": str(report.root),
        "level": report.level,
        "errors": len(report.errors),
        "warnings": len(report.warnings),
        "fixed": report.fixed,
        "checks": [
            {
                "level": done.level,
                "check": done.name,
                "why": done.why,
                "status": "found" if done.findings else "not checked" if done.skipped else "ok",
                "reason": done.skipped,
                "seconds": round(done.seconds, 3),
                "findings": [
                    {
                        "severity": one.severity,
                        "where": one.where,
                        "found": one.found,
                        "fix": one.fix,
                    }
                    for one in done.findings
                ],
            }
            for done in report.checks
        ],
    }


def _headline(report: PreflightReport) -> str:
    counts = [
        f"{count} {word}{'s' * (count != 1)}"
        for count, word in ((len(report.errors), "error"), (len(report.warnings), "warning"))
        if count
    ]
    seconds = sum(done.seconds for done in report.checks)
    return (
        f"preflight of {report.root.name}, level {report.level}: "
        f"{', '.join(counts) or 'nothing found'} ({len(report.checks)} checks, {seconds:.1f} s)"
    )
