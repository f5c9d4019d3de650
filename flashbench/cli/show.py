"""`flashbench show`: the table of a run file, in any format."""

from pathlib import Path

import click

from flashbench.cli.output import deliver, report_options
from flashbench.errors import Exit
from flashbench.runfile import RunFile
from flashbench.settings import SettingsCommand

VIEWS = ("speedup", "detail")


def render(
    run: RunFile,
    output_format: str = "text",
    *,
    view: str = "speedup",
    metric: str | None = None,
    against: str = "sdpa",
    tolerance: float = 0.01,
    alpha: float = 0.05,
) -> str:
    """The table of `run`; view "speedup" has the verdicts, "detail" the percentiles.

    output_format: "text", "markdown", "csv" or "json". Errors: InvalidInputError.
    """
    from flashbench.render import render as render_document
    from flashbench.report import report_one
    from flashbench.views import detail, speedup

    report = report_one(run, metric=metric, against=against, tolerance=tolerance, alpha=alpha)
    document = (detail if view == "detail" else speedup).document(report)
    return render_document(document, output_format)


@click.command(
    "show",
    cls=SettingsCommand,
    epilog="Defaults: [tool.flashbench.show] of pyproject.toml.",
    help="Print the table of a run file. The view `speedup` has one row a case with its verdict, "
    "`detail` the percentiles of every candidate. Exits 0 whatever the verdicts are; `compare` is "
    "the gate.",
)
@click.argument("file", metavar="RUN", type=click.Path(path_type=Path))
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
    from flashbench.runfile import load

    text = render(
        load(file),
        output_format,
        view=view,
        metric=metric,
        against=against,
        tolerance=tolerance,
        alpha=1 - confidence,
    )
    deliver(text, output)
    return Exit.PASS
