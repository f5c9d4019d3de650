"""The options of `run` that spread a run over devices, and what they do."""

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from flashbench.cli.measuring import tell
from flashbench.errors import InvalidInputError

if TYPE_CHECKING:
    from flashbench.run import Outcome, Plan
    from flashbench.runfile import RunFile


def _shard(context: click.Context, parameter: click.Parameter, value: str | None) -> str:
    if value is None:
        return ""
    from flashbench.shard import Shard

    try:
        return str(Shard.parse(value))
    except InvalidInputError as error:
        raise click.BadParameter(str(error), context, parameter) from None


_OPTIONS = [
    click.option(
        "--shard",
        metavar="I/N",
        callback=_shard,
        help="Measure the I-th of N parts of the cases alone; `flashbench merge` joins the parts.",
    ),
    click.option(
        "--gpus",
        metavar="all|N|I,J,...",
        help="Measure on all GPUs here, on the first N, or on these; the cases are shared out.",
    ),
    # Of a task that `run` started itself: go on with the part's file, no table, no advice.
    click.option("--child", is_flag=True, hidden=True),
]
# Options of `run` that do not say what is measured, and --budget, which tasks share.
_NOT_PLAN = {"shard", "gpus", "child", "resume", "output", "format_", "budget"}


def fleet_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options that spread a run over devices."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def spread(context: click.Context) -> str:
    """The option that spreads this run over devices, as one would write it again; "" if none.

    Settings spread what is new, whole and not of the CPU; the command line is taken at its word.
    """
    options = context.params
    if options["child"] or not options["gpus"]:
        return ""
    given = context.get_parameter_source("gpus") is ParameterSource.COMMANDLINE
    if given and options["shard"]:
        raise InvalidInputError("--shard and --gpus: a shard is measured on one device; drop one")
    if not given and (options["shard"] or options["resume"] or options["device"] == "cpu"):
        return ""
    return f"--gpus {options['gpus']}"


def measure_on_gpus(
    context: click.Context, plan: "Plan", path: Path, resumed: "RunFile | None"
) -> "Outcome":
    """Measure on the GPUs that --gpus names, a process tree each."""
    from flashbench.fleet.gpus import choose, slots, visible_gpus
    from flashbench.fleet.local import measure_on_slots

    device = resumed.cases[0].device if resumed else plan.device
    if device == "cpu":
        raise InvalidInputError(
            "--gpus: the cases are of the CPU; two workers on one CPU would disturb each other"
        )
    places = slots(choose(context.params["gpus"], visible_gpus()))
    cases = resumed.cases if resumed else plan.cases("cuda")
    flags = [] if resumed else plan_flags(context, device="cuda")
    return measure_on_slots(plan, path, places[: len(cases)], flags, tell, resumed)


def plan_flags(context: click.Context, **changed: Any) -> list[str]:
    """What is measured, as flags: settings and defaults are written out, so that a task that
    starts tomorrow measures what was asked for today. changed: options with another value."""
    flags: list[str] = []
    for parameter in context.command.params:
        if not isinstance(parameter, click.Option) or parameter.name in _NOT_PLAN:
            continue
        value = changed.get(parameter.name or "", context.params[parameter.name or ""])
        flag = parameter.opts[0]
        if parameter.is_flag:
            flags += [flag] if value else []
        else:
            values = value if parameter.multiple else [value]
            flags += [f"{flag}={_written(one)}" for one in values if one is not None]
    return flags


def _written(value: Any) -> str:
    """A number without an exponent, which durations do not have."""
    return f"{Decimal(repr(value)):f}" if isinstance(value, float) else str(value)
