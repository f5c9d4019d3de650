"""Interpret the options of measuring commands, and report their progress on stderr."""

import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from flashbench import operations
from flashbench.cli.grid_options import GRID
from flashbench.cli.options import PROCESSES, RULE
from flashbench.cost.money import DevicePrice, Money, price_of, read_prices, seconds_of
from flashbench.errors import InvalidInputError
from flashbench.machine import device_of, name_of
from flashbench.operations import Operation, Sizes
from flashbench.render.escape import printable

if TYPE_CHECKING:
    from flashbench.case import Case
    from flashbench.revisions.revision import Revision
    from flashbench.runfile import Pair

# Options that identify a bisection of speed, and those that no other bisection takes.
DECIDES_BISECTION = GRID | RULE | PROCESSES | {"samples", "threads", "seed"}
_OF_SPEED = DECIDES_BISECTION | {"timeout", "launches", "resume", "force"}


def chosen_shapes(options: dict[str, Any], operation: Operation) -> list[Sizes]:
    """The shapes of --preset and --shape; the headline shape if neither is given."""
    presets = options["presets"] or (() if options["shapes"] else ("headline",))
    shapes = [shape for preset in presets for shape in operation.preset(preset)]
    return shapes + [shape for text in options["shapes"] for shape in operation.parse(text)]


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
    """The fields of a `Plan` that come from shared options."""
    operation = operations.named(options.get("operation", operations.DEFAULT))
    return {
        "operation": operation.name,
        "shapes": chosen_shapes(options, operation),
        "dtypes": options["dtypes"] or None,
        "options": operation.requested(options["causal"], options["layout"]),
        "device": options["device"],
        "samples": options["samples"],
        "seed": options["seed"],
        "threads": options["threads"],
        "min_sample_seconds": options["min_sample"],
        "timeout_seconds": options["timeout"],
        **price_options(options),
        "processes": options.get("processes", "auto"),
        "workers": options.get("workers", "auto"),
        "launches": options["launches"],
        "command": ["flashbench", *sys.argv[1:]],
    }


def pair_of(options: dict[str, Any]) -> "Pair":
    """Two builds side by side, and the rule that decides their cases."""
    from flashbench.revisions.built import NEW, OLD
    from flashbench.runfile import Pair

    rule = {name: options[name] for name in ("tolerance", "confidence")}
    return Pair(old=OLD, new=NEW, metric=options.get("metric") or "", **rule)


def price_options(options: dict[str, Any], machine: str = "") -> dict[str, Any]:
    """The fields of a `Plan` with the hourly price and the budget in seconds. machine: the device's
    name, if it is another machine's.

    InvalidInputError for a budget in money without a rate.
    """
    rate = rate_of(options, machine)
    budget = options["budget"]
    return {
        "budget_seconds": None if budget is None else seconds_of(budget, rate),
        "hourly_rate": rate and rate.hourly,
        "currency": rate.currency if rate else "",
        "price": rate.source if rate else "",
    }


def rate_of(options: dict[str, Any], machine: str = "") -> DevicePrice | None:
    """--hourly-rate, in the currency of --budget if it has none, else the price of the machine in
    the settings, else None. machine: as of `price_options`."""
    given: Money | None = options["hourly_rate"]
    if given is not None:
        budget = options.get("budget")
        other = budget.currency if isinstance(budget, Money) else ""
        return DevicePrice(given.amount, given.currency or other)
    prices = read_prices(Path.cwd())
    if not prices or (options.get("slurm") and not options.get("on")):  # another machine
        return None
    machine = machine or options.get("on") or name_of(device_of(options["device"]))
    found = price_of(prices, machine)
    if found is not None and (doubt := found.doubt(datetime.now(UTC).date())):
        _warn(f"the price {doubt}: {found.source}")
    return found


@cache
def _warn(text: str) -> None:
    """Once a command, however often it is called."""
    tell(f"warning: {text}")


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
            refuse_given(context, GRID.__contains__, "and --case do not go together; drop one")
    else:
        refuse_given(context, _OF_SPEED.__contains__, "is for --for speed; drop it")
        if options["cases"] and purpose != "correct":
            raise InvalidInputError("--case is for --for correct or speed; drop it")
    cases = [operations.parse_case(text) for text in options["cases"]]
    if len({case.device for case in cases}) > 1:
        raise InvalidInputError("--case: all cases must be on one device")
    return cases
