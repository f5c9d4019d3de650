"""The table of one run file, in either view."""

from typing import Any

from flashbench import defaults
from flashbench.render import render as render_document
from flashbench.report import report_one
from flashbench.runfile import RunFile
from flashbench.table import Document
from flashbench.views import detail, speedup


def document(
    run: RunFile,
    *,
    view: str = "speedup",
    plot: bool = False,
    times: bool = False,
    metric: str | None = None,
    against: str = "sdpa",
    tolerance: float = defaults.TOLERANCE,
    alpha: float = defaults.ALPHA,
) -> Document:
    """The table of `run`; view "speedup" has the verdicts, "detail" the percentiles. plot: with
    the distribution of times beside them. times: as in `speedup.document`. Raises
    InvalidInputError.
    """
    report = report_one(run, metric=metric, against=against, tolerance=tolerance, alpha=alpha)
    if view == "detail":
        return detail.document(report, plot=plot)
    return speedup.document(report, times=times)


def render(run: RunFile, output_format: str = "text", **options: Any) -> str:
    """`document` as text in a format of flashbench.render."""
    return render_document(document(run, **options), output_format)
