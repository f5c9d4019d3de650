"""`flashbench show`: print the table of a run file, in any format."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashbench.cli.options import arrangement_options, report_options
from flashbench.cli.output import arranged, deliver, judging_options
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
    plot: bool = False,
    metric: str | None = None,
    against: str = "sdpa",
    tolerance: float = 0.01,
    alpha: float = 0.05,
) -> "Document":
    """The table of `run`; view "speedup" has the verdicts, "detail" the percentiles. plot: with
    the distribution of times beside them. Raises InvalidInputError.
    """
    from flashbench.report import report_one
    from flashbench.views import detail, speedup

    report = report_one(run, metric=metric, against=against, tolerance=tolerance, alpha=alpha)
    if view == "detail":
        return detail.document(report, plot=plot)
    return speedup.document(report)


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
@arrangement_options
@click.option(
    "--plot",
    is_flag=True,
    help="Draw each interval as a bar around 1.0; in the detail view, the distribution of times.",
)
def command(file: Path, view: str, plot: bool, **options: Any) -> int:
    from flashbench.other_tools.detect import is_foreign
    from flashbench.run_reader import load

    if is_foreign(file):
        from flashbench.other_tools.read import read
        from flashbench.views import other_tools

        table = other_tools.series_document(read(file, options["metric"]))
    else:
        run = load(file)
        table = document(
            run, view=view, plot=plot, against=options["against"], **judging_options(run, options)
        )
    deliver(arranged(table, options), options["output_format"], options["output"], plot)
    return Exit.PASS
