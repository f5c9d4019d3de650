"""What `show` and `compare` have in common: their options and where the table goes."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from flashbench.cli.report_file import ReportFile, write_report
from flashbench.errors import InvalidInputError
from flashbench.metric import METRICS

if TYPE_CHECKING:
    from flashbench.runfile import RunFile
    from flashbench.table import Document

FORMATS = ("text", "markdown", "csv", "json", "github", "junit")


class Fraction(click.ParamType[float]):
    """`1%` or `0.01`, between bounds that are not included."""

    name = "fraction"

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        text = str(value).strip()
        try:
            number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            number = float("nan")
        if not self.low < number < self.high:
            self.fail(
                f"{text!r} is not a fraction above {self.low:g} and below {self.high:g}; "
                "write 1% or 0.01",
                param,
                ctx,
            )
        return number


_OPTIONS = [
    click.option(
        "--metric",
        type=click.Choice(METRICS),
        help="Time to judge by [default: wall on the CPU, gpu_warm on a GPU].",
    ),
    click.option(
        "--against",
        type=click.Choice(("sdpa", "best")),
        default="sdpa",
        show_default=True,
        help="One run file: SDPA's default, or its best backend on each case.",
    ),
    click.option(
        "--tolerance",
        type=Fraction(0, 1),
        default="1%",
        show_default=True,
        help="Largest change that does not matter.",
    ),
    click.option(
        "--confidence",
        type=Fraction(0.5, 1),
        default="95%",
        show_default=True,
        help="Of all intervals of the table together.",
    ),
    click.option(
        "--format",
        "output_format",
        type=click.Choice(FORMATS),
        default="text",
        show_default=True,
        help="How to print the table. `github`: annotations of the log, the table to the summary "
        "of the job; `junit`: a test case a row.",
    ),
    click.option(
        "-o",
        "--output",
        type=ReportFile(),
        help="Write the table there instead of to stdout; with `github` a table fit for a comment, "
        "beside the rest.",
    ),
]


def judging_options(run: "RunFile | None", options: dict[str, Any]) -> dict[str, Any]:
    """Metric, tolerance and alpha for a report; of two builds that were measured until they were
    decided, those by which they were, unless the command line says otherwise."""
    chosen = {name: options[name] for name in ("metric", "tolerance", "confidence")}
    if run is not None and run.pair is not None:
        measured = {
            "metric": run.pair.metric or None,
            "tolerance": run.pair.tolerance,
            "confidence": run.pair.confidence,
        }
        context = click.get_current_context()
        for name, value in measured.items():
            if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE:
                chosen[name] = value
    confidence = chosen.pop("confidence")
    return {**chosen, "alpha": 1 - confidence}


def report_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options of every table to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def deliver(document: "Document", output_format: str, output: Path | None) -> None:
    """Render the table and write it to `output`, or to stdout.

    "github": annotations to stdout, and the table to `output`, to the file that
    $GITHUB_STEP_SUMMARY names (added to what is there), or without either to stdout.
    Raises InvalidInputError naming the file, or stdout, that cannot be written.
    """
    from flashbench.render import render

    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if output_format != "github" or not (output or summary):
        text = render(document, output_format, None if output else terminal_width())
        write_report(output, text) if output else click.echo(text, nl=False)
        return
    from flashbench.render import github, markdown

    click.echo(github.annotations(document), nl=False)
    if output:
        write_report(output, markdown.comment(document))
    if summary:
        path = Path(summary)
        used = path.stat().st_size if path.is_file() else 0
        # The limit is that of everything that the step writes there.
        text = markdown.comment(document, github.SUMMARY_LIMIT - used - 1)
        _append(path, f"\n{text}" if used else text)


def terminal_width() -> int | None:
    """Columns that stdout has: as $COLUMNS says, else the terminal; None where it is none."""
    said = os.environ.get("COLUMNS", "")
    if said.isascii() and said.isdigit() and int(said):
        return int(said)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except (OSError, ValueError):
        return None


def _append(path: Path, text: str) -> None:
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot be written: {error.strerror}") from None
