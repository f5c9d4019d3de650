"""Deliver a command's table, and read the options of its verdicts."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashbench.cli.measuring import is_given
from flashbench.cli.report_file import write_report
from flashbench.errors import InvalidInputError
from flashbench.render.terminal import Terminal

if TYPE_CHECKING:
    from flashbench.comparing.rule import Rule
    from flashbench.runfile import RunFile
    from flashbench.table import Document


def rules_of(options: dict[str, Any]) -> "tuple[Rule, Rule]":
    """The rule on the command line, and the one for what it does not say, with settings."""
    from flashbench.comparing.rule import Rule

    context = click.get_current_context()
    names = ("metric", "tolerance", "confidence")
    said = {name: options[name] for name in names if is_given(context, name)}
    return Rule(**said), Rule(**{name: options[name] for name in names})


def judging_options(run: "RunFile | None", options: dict[str, Any]) -> dict[str, Any]:
    """Metric, tolerance and alpha of a report. Two builds measured until decided keep those that
    decided them, unless the command line overrides them."""
    from flashbench.comparing.rule import rule_of

    return rule_of(run, *rules_of(options)).arguments


def arranged(document: "Document", options: dict[str, Any]) -> "Document":
    """The table by the options --columns, --sort, --only and --group."""
    from flashbench.views.arrange import Arrangement
    from flashbench.views.arrange import arranged as arrange

    columns = [name for name in (options["columns"] or "").split(",") if name.strip()]
    wish = Arrangement(columns, options["sort"] or "", options["only"], options["group"] or "")
    return arrange(document, wish)


def wants_times(options: dict[str, Any], output_format: str) -> bool:
    """Whether a table has columns of times: for programs, and for users who name a column."""
    return output_format in ("json", "csv") or bool(options["columns"] or options["sort"])


def deliver(
    document: "Document", output_format: str, output: Path | None, plot: bool | None = False
) -> None:
    """Render the table and write it to `output`, or to stdout. plot: draw its intervals; None:
    where a terminal has room for them.

    "github": annotations to stdout, and the table to `output`, appended to the file
    $GITHUB_STEP_SUMMARY names, or without either to stdout. Raises InvalidInputError, naming the
    file or stdout, if it cannot be written.
    """
    from flashbench.render import render

    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if output_format != "github" or not (output or summary):
        shown_by = terminal(plot, to_file=output is not None)
        text = render(document, output_format, shown_by)
        write_report(output, text) if output else click.echo(text, nl=False, color=shown_by.colour)
        return
    from flashbench.render import github, markdown

    click.echo(github.annotations(document), nl=False)
    if output:
        write_report(output, markdown.comment(document))
    if summary:
        path = Path(summary)
        used = path.stat().st_size if path.is_file() else 0
        # The limit covers everything the step writes there.
        text = markdown.comment(document, github.SUMMARY_LIMIT - used - 1)
        _append(path, f"\n{text}" if used else text)


def terminal(plot: bool | None = False, *, to_file: bool = False) -> Terminal:
    """What stdout can show, or a file. $NO_COLOR and TERM=dumb are obeyed."""
    if to_file:
        return Terminal(plot=bool(plot))
    shown = sys.stdout.isatty()
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    encoding = (sys.stdout.encoding or "ascii").lower()
    return Terminal(
        width=terminal_width(),
        colour=shown and not plain,
        unicode=encoding.startswith("utf"),
        plot=plot if shown or plot is not None else False,
    )


def terminal_width() -> int | None:
    """The width of stdout: $COLUMNS, else the terminal's; None if it is not a terminal."""
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
