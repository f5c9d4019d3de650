"""Interpret the options of measuring commands, and report their progress on stderr."""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from flashbench import operations
from flashbench.cli.grid_options import GRID_OPTIONS
from flashbench.cli.options import PROCESS_OPTIONS, RULE_OPTIONS
from flashbench.errors import InvalidInputError
from flashbench.measuring.requested import requested_fields
from flashbench.render.escape import printable

if TYPE_CHECKING:
    from flashbench.case import Case
    from flashbench.revisions.revision import Revision
    from flashbench.runfile import Pair

# Options that identify a bisection of speed, and those that no other bisection takes.
DECIDES_BISECTION = GRID_OPTIONS | RULE_OPTIONS | PROCESS_OPTIONS | {"samples", "threads", "seed"}
_OF_SPEED = DECIDES_BISECTION | {"timeout", "launches", "resume", "force"}


def tell(text: str) -> None:
    """Print a line on stderr."""
    # Reasons quote candidates' output and run files, which must not control the terminal.
    click.echo(f"flashbench: {printable(text)}", err=True)


def tell_still(timeout: float, flag: str) -> Callable[[Sequence["Revision"]], None]:
    """A function that prints a line on stderr during long builds; timeout: seconds, set by the
    flag."""

    def still(revisions: Sequence["Revision"]) -> None:
        labels = ", ".join(revision.label for revision in revisions)
        tell(f"still building or checking {labels}; a build may take {timeout:g} s ({flag})")

    return still


def plan_options(options: dict[str, Any]) -> dict[str, Any]:
    """The fields of a `Plan` that shared options give, and the command."""
    return requested_fields(options) | {"command": ["flashbench", *sys.argv[1:]]}


def pair_of(options: dict[str, Any]) -> "Pair":
    """Two builds side by side, and the rule that decides their cases."""
    from flashbench.revisions.built import NEW, OLD
    from flashbench.runfile import Pair

    rule = {name: options[name] for name in ("tolerance", "confidence")}
    return Pair(old=OLD, new=NEW, metric=options.get("metric") or "", **rule)


def said_tolerance(context: click.Context) -> float | None:
    """--tolerance, from flag or setting; None: this machine and the budget decide."""
    is_default = context.get_parameter_source("tolerance") is ParameterSource.DEFAULT
    return None if is_default else context.params["tolerance"]


def is_given(context: click.Context, name: str) -> bool:
    """Whether an option is given on the command line, not by default or setting."""
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


def refuse_given(context: click.Context, refused: Callable[[str], bool], why: str) -> None:
    """Raise InvalidInputError if one of these options is on the command line."""
    for parameter in context.command.params:
        name = parameter.name or ""
        if is_given(context, name) and refused(name):
            raise InvalidInputError(f"{parameter.opts[0]} {why}")


def cases_to_bisect(context: click.Context) -> "list[Case]":
    """The cases of `bisect --case`. Raises InvalidInputError for options that do not go
    together."""
    options = context.params
    purpose = options["purpose"]
    if purpose == "speed":
        if is_given(context, "quick"):
            raise InvalidInputError("--quick is not for --for speed; drop it")
        if options["cases"]:
            refuse_given(
                context, GRID_OPTIONS.__contains__, "and --case do not go together; drop one"
            )
    else:
        refuse_given(context, _OF_SPEED.__contains__, "is for --for speed; drop it")
        if options["cases"] and purpose != "correct":
            raise InvalidInputError("--case is for --for correct or speed; drop it")
    cases = [operations.parse_case(text) for text in options["cases"]]
    if len({case.device for case in cases}) > 1:
        raise InvalidInputError("--case: all cases must be on one device")
    return cases
