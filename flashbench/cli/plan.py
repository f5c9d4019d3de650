"""`flashbench plan COMMAND`: what a command would take, in seconds and money."""

from importlib import import_module
from typing import Any

import click

from flashbench.cli.options import FORMATS, format_option
from flashbench.cli.output import deliver
from flashbench.cli.settings import SettingsCommand
from flashbench.errors import Exit

PLANNED = {
    "run": "What `flashbench run` would take.",
    "compare": "What `flashbench compare` of two revisions would take.",
    "bisect": "What `flashbench bisect` would take.",
    "backfill": "What `flashbench backfill` would take.",
}
# Options of the planned command's report; the plan has its own instead.
_REPORT = {"format_", "output_format"}


class _Plans(click.Group):
    """The commands that can be planned, each with its own options, read when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(PLANNED)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in PLANNED:
            return None
        planned: click.Command = import_module(f"flashbench.cli.{cmd_name}").command
        return _plan_of(planned)


def _plan_of(planned: click.Command) -> click.Command:
    taken = [one for one in planned.params if one.name not in _REPORT]

    @click.command(
        planned.name,
        cls=SettingsCommand,
        params=[*taken],
        help=f"{PLANNED[str(planned.name)]} Takes all its options; builds, measures and "
        "writes nothing.",
    )
    @format_option(FORMATS, "How to print the plan.", "plan_format")
    @click.pass_context
    def command(context: click.Context, /, plan_format: str, **options: Any) -> int:
        from flashbench.cli import forecasts
        from flashbench.views import plan

        found = getattr(forecasts, str(planned.name))(context, options)
        deliver(plan.document(found), plan_format, None)
        return Exit.PASS

    return command


@click.command(
    "plan",
    cls=_Plans,
    no_args_is_help=False,
    epilog="Exit codes: 0, even if the plan exceeds --budget; 2 usage. docs/cost.md explains "
    "the estimate.",
)
def command() -> None:
    """Estimate the device seconds, time, builds and money that a command would take, with ranges.

    From earlier runs on this machine; without any, the plan says that it is a guess. If the plan
    exceeds --budget, it says what fits.
    """
