"""`flashbench preflight`: what would fail, found before a GPU is paid for."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from flashbench.cli.measuring import tell
from flashbench.cli.parameter_types import Duration
from flashbench.errors import Exit, InvalidInputError
from flashbench.preflight import LEVELS, Level, run
from flashbench.settings import SettingsCommand, read_pyproject


class _Preflight(SettingsCommand):
    """Goes on without settings where pyproject.toml cannot be read: that is a finding."""

    def settings(self, path: Path, commands: Sequence[str]) -> dict[str, Any]:
        try:
            read_pyproject(path)
        except InvalidInputError:
            return {}
        return super().settings(path, commands)


@click.command(
    "preflight",
    cls=_Preflight,
    epilog="Exit codes: 0 nothing found, or warnings alone, 1 a finding that fails a build or a "
    "run, 2 usage. A check that this machine does not allow says so and fails nothing.",
)
@click.option(
    "--level",
    type=click.Choice(LEVELS),
    default="source",
    show_default=True,
    help="`source`: from the text of the sources, without a compiler, torch or a build. `build`: "
    "also the tools, and HEAD built from a clean export, without a GPU. `device`: also the GPU, "
    "its driver and what uses it.",
)
@click.option(
    "--fix",
    is_flag=True,
    help="Do what is safe: CUDA's PATH, a list of architectures, the build of a stale library.",
)
@click.option(
    "--timeout", type=Duration(), default="30m", show_default=True, help="Of the build of HEAD."
)
@click.option("--format", "output_format", type=click.Choice(["text", "json"]), default="text")
def command(level: Level, fix: bool, timeout: float, output_format: str) -> int:
    """Find what would fail before a GPU is paid for; each finding with its fix.

    Works in any project, here from its pyproject.toml upwards; with [tool.flashbench.project] its
    settings are checked, too. --fix changes what this command itself starts, and of the project
    what its own build makes: no driver, no setting of a GPU, no source.
    """
    from flashbench.views import preflight

    report = run(Path.cwd(), level, fix=fix, timeout=timeout, tell=tell)
    if output_format == "json":
        click.echo(json.dumps(preflight.data(report), indent=1))
    else:
        click.echo(preflight.text(report), nl=False)
    return Exit.REGRESSION if report.errors else Exit.PASS
