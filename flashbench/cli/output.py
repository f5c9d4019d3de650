"""What `show` and `compare` have in common: their options and where the table goes."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from flashbench.errors import InvalidInputError

FORMATS = ("text", "markdown", "csv", "json")
METRICS = ("wall", "gpu_warm", "gpu_cold", "graph")


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
        help="How to print the table.",
    ),
    click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Write the table there instead of to stdout.",
    ),
]


def report_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options of every table to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def deliver(text: str, output: Path | None) -> None:
    """Write the table to `output`, or to stdout.

    A reader of stdout that goes away (`| head`) changes nothing about the verdicts: the command
    goes on to its exit code.
    """
    if output is None:
        try:
            click.echo(text, nl=False)
        except BrokenPipeError:
            # What is left in the buffer would be written, and fail again, when Python ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInputError(f"{output}: cannot be written: {error.strerror}") from None
