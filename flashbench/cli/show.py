"""`flashbench show`: print the table of a run file, in any format."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashbench.cli.options import report_options
from flashbench.cli.output import deliver, judging_options
from flashbench.cli.parameter_types import PathType
from flashbench.errors import Exit
from flashbench.runfile import RunFile
from flashbench.settings import SettingsCommand

if TYPE_CHECKING:
    from flashbench.table import Document

VIEWS = ("speedup", "detail")


def document(
    run: RunFile,
    *,
    view: str = "speedup",
    metric: str | None = None,
    against: str = "sdpa",
    tolerance: float = 0.01,
    alpha: float = 0.05,
) -> "Document":
    """The table of `run`; view "speedup" has the verdicts, "detail" the percentiles. Raises
    InvalidInputError."""
    from flashbench.report import report_one
    from flashbench.views import detail, speedup

    report = report_one(run, metric=metric, against=against, tolerance=tolerance, alpha=alpha)
    return detail.document(report) if view == "detail" else speedup.document(report)


def render(run: RunFile, output_format: str = "text", **options: Any) -> str:
    """`document` as text in a format of flashbench.render."""
    from flashbench.render import render as render_document

    return render_document(document(run, **options), output_format)


@click.command(
    "show",
    cls=SettingsCommand,
    epilog="Defaults: [tool.flashbench.show] of pyproject.toml.",
    help="Print the table of a run file. View `speedup` has one row per case with its verdict, "
    "`detail` the percentiles of every candidate. For a file from asv, pytest-benchmark or "
    "pyperf, or a folder of such files: its series. Exits 0 whatever the verdicts are; "
    "`compare` is the gate.",
)
@click.argument("file", metavar="RUN", type=PathType())
@click.option("--view", type=click.Choice(VIEWS), default="speedup", show_default=True)
@report_options
def command(
    file: Path,
    view: str,
    metric: str | None,
    against: str,
    tolerance: float,
    confidence: float,
    output_format: str,
    output: Path | None,
) -> int:
    from flashbench.other_tools.detect import is_foreign
    from flashbench.run_reader import load

    if is_foreign(file):
        from flashbench.other_tools.read import read
        from flashbench.views import other_tools

        deliver(other_tools.series_document(read(file, metric)), output_format, output)
        return Exit.PASS
    run = load(file)
    options = {"metric": metric, "tolerance": tolerance, "confidence": confidence}
    table = document(run, view=view, against=against, **judging_options(run, options))
    deliver(table, output_format, output)
    return Exit.PASS
