"""`flashbench compare`: the gate. One run file: candidate against SDPA. Two: B against A."""

from pathlib import Path

import click

from flashbench.cli.output import deliver, report_options
from flashbench.errors import Exit
from flashbench.settings import SettingsCommand

ALLOWABLE = ("undecided", "not-measured", "different-machine")


@click.command(
    "compare",
    cls=SettingsCommand,
    epilog="Defaults: [tool.flashbench.compare] of pyproject.toml.",
    help="One run file A: is each candidate slower than SDPA? Two: is B slower than A, with SDPA "
    "as the control? Exits 1 if any case is SLOWER or wrong, else 4 if any could not be measured, "
    "else 3 if any is UNDECIDED, else 0.",
)
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path), required=False)
@report_options
@click.option(
    "--allow",
    type=click.Choice(ALLOWABLE),
    multiple=True,
    help="Let this pass; may be repeated.",
)
@click.option("--exit-zero", is_flag=True, help="Exit 0 whatever the verdicts are.")
def command(
    a: Path,
    b: Path | None,
    metric: str | None,
    against: str,
    tolerance: float,
    confidence: float,
    output_format: str,
    output: Path | None,
    allow: tuple[str, ...],
    exit_zero: bool,
) -> int:
    from flashbench.errors import InvalidInputError, NotMeasuredError
    from flashbench.report import report_one, report_two
    from flashbench.runfile import load
    from flashbench.verdict import exit_code
    from flashbench.views import speedup

    alpha = 1 - confidence
    if b is None:
        report = report_one(
            load(a), metric=metric, against=against, tolerance=tolerance, alpha=alpha
        )
    elif against != "sdpa":
        raise InvalidInputError("--against best is for one run file; two are compared over SDPA")
    else:
        report = report_two(
            load(a), load(b), metric=metric, tolerance=tolerance, alpha=alpha, allow=allow
        )
    if not report.comparisons:
        raise NotMeasuredError(
            f"{a}: nothing to compare: it has no candidate besides SDPA, or no SDPA, or no case; "
            "`flashbench show` prints what it has"
        )
    deliver(speedup.document(report, gate=True), output_format, output)
    return Exit.PASS if exit_zero else exit_code(report.verdicts, allow)
