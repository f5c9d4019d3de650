"""`flashbench preflight`: find what would fail before you pay for a GPU."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from flashbench.cli.measuring import tell
from flashbench.cli.options import format_option, timeout_option
from flashbench.cli.settings import SettingsCommand
from flashbench.errors import Exit, InvalidInputError
from flashbench.preflight import LEVELS, CheckLevel, run
from flashbench.pyproject import read_pyproject


class _Preflight(SettingsCommand):
    """Continues without settings if pyproject.toml is unreadable, and reports that as a finding."""

    def settings(self, path: Path, commands: Sequence[str]) -> dict[str, Any]:
        try:
            read_pyproject(path)
        except InvalidInputError:
            return {}
        return super().settings(path, commands)


@click.command(
    "preflight",
    cls=_Preflight,
    epilog="Exit codes: 0 no findings, or only warnings, 1 a finding that fails a build or a run, "
    "2 usage. A check that cannot run on this machine says so and fails nothing.",
)
@click.option(
    "--level",
    type=click.Choice(LEVELS),
    default="source",
    show_default=True,
    help="`source`: reads the source text, without a compiler, torch or a build. `build`: also "
    "checks the tools and builds a clean export of HEAD, without a GPU. `device`: also checks "
    "the GPU, its driver and what uses it.",
)
@click.option(
    "--fix",
    is_flag=True,
    help="Make safe fixes: CUDA on PATH, the list of architectures, a rebuild of a stale library.",
)
@timeout_option("For the build of HEAD.", "30m")
@format_option(["text", "json"])
def command(level: CheckLevel, fix: bool, timeout: float, output_format: str) -> int:
    """Find what would fail before you pay for a GPU; each finding has its fix.

    Works in any project, here from its pyproject.toml upwards; with [tool.flashbench.project] its
    settings are checked, too. --fix changes what this command starts and what the project's own
    build makes, but no driver, GPU setting or source.
    """
    from flashbench.views import preflight

    report = run(Path.cwd(), level, fix=fix, timeout=timeout, tell=tell)
    if output_format == "json":
        click.echo(json.dumps(preflight.data(report), indent=1))
    else:
        click.echo(preflight.text(report), nl=False)
    return Exit.REGRESSION if report.errors else Exit.PASS
