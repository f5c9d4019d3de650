"""The options of `run` that spread a run over devices, and what they do."""

from collections.abc import Callable

import click

from flashbench.errors import InvalidInputError


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
]


def fleet_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options that spread a run over devices."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
