"""`flashbench gate`: does it build, fit, compute correctly, run fast enough? Stops at the first
failing level."""

from pathlib import Path
from typing import Any

import click

from flashbench.cli.grid_options import grid_options
from flashbench.cli.measuring import plan_options, tell
from flashbench.cli.options import (
    JOINT,
    build_options,
    confidence_option,
    effort_options,
    force_option,
    format_options,
    launches_option,
    metric_option,
    run_file_option,
)
from flashbench.cli.output import deliver
from flashbench.cli.parameter_types import Count, Number
from flashbench.cli.report_file import refuse_run_file
from flashbench.cli.run_file import interrupted
from flashbench.cli.settings import SettingsCommand
from flashbench.cost.spent import Spent
from flashbench.errors import InvalidInputError
from flashbench.measuring.claim import new_run_file
from flashbench.measuring.requested import how_to_build, rate_of
from flashbench.revisions import WORKTREE

_DEFAULT_SPEEDS = (0.5, 1.0)


@click.command(
    "gate",
    cls=SettingsCommand,
    epilog="Exit codes: 0 every level passed, 1 one failed, 2 usage, 3 one is undecided, 4 one "
    "could not be measured. Settings: [tool.flashbench.gate], e.g. at-least = [0.5, 1.0, 1.5].",
)
@click.argument("revision", default=WORKTREE)
@click.option(
    "--at-least",
    "speeds",
    type=Number(above_zero=True),
    multiple=True,
    default=_DEFAULT_SPEEDS,
    show_default=True,
    help="A speed level, as a multiple of the baseline's speed; repeatable.",
)
@click.option(
    "--most-stack",
    type=Count(min=0),
    default=256,
    show_default=True,
    help="Most bytes of stack per thread that a CUDA kernel may use (spills, indexed arrays).",
)
@click.option("--no-speed", is_flag=True, help="Stop before anything is timed.")
@grid_options
@metric_option("Time to judge by.")
@confidence_option(JOINT)
@launches_option(12)
@effort_options
@build_options()
@run_file_option("gate")
@force_option()
@format_options
def command(revision: str, **options: Any) -> int:
    """Does it build, fit, compute correctly, and run fast enough?

    Tries the levels in this order, stops at the first that does not pass, and prints the next step.
    REVISION: the working tree by default.
    """
    from flashbench.gate import Level, LevelState
    from flashbench.gate.ladder import Ladder, climb, taken
    from flashbench.gate.level import LEVEL_EXIT_CODES
    from flashbench.measuring.plan import Plan
    from flashbench.measuring.progress import make_progress
    from flashbench.revisions import read, resolve
    from flashbench.revisions.announced import build_one
    from flashbench.revisions.built import seconds_of
    from flashbench.run_plan import CutShortError
    from flashbench.views import gate

    if not options["no_speed"]:
        _refuse_too_few(options["launches"], options["confidence"])
    path = options["run_file"] or new_run_file("gate")
    refuse_run_file(options["output"], path)
    metrics = [options["metric"]] if options["metric"] else None
    asked = Ladder(
        options["most_stack"],
        [] if options["no_speed"] else sorted(set(options["speeds"])),
        Plan(**plan_options(options), candidates=[], metrics=metrics),
        options["confidence"],
        options["budget"],
    )
    project = read(Path.cwd())
    chosen = resolve(project.repository, revision)
    how = how_to_build(options)
    built = build_one(project, chosen, project.callable, tell, stage="correct", **how)
    spent = Spent(rate=rate_of(options), builds=seconds_of([built]))
    done: list[Level] = []
    try:
        for level, run in climb(asked, built, path, make_progress(), tell, force=options["force"]):
            done, spent = taken(done, level), spent if run is None else Spent.of(run)
            tell(f"{level.name}: {level.state}: {level.evidence}")
            if level.state is not LevelState.PASSED:
                break
    except CutShortError:
        raise interrupted(path, named=options["run_file"] is not None) from None
    code = LEVEL_EXIT_CODES[done[-1].state]
    done += [Level(name, LevelState.NOT_REACHED) for name in asked.names[len(done) :]]
    document = gate.document(f"gate of {revision}", done, spent)
    deliver(document, options["output_format"], options["output"])
    return code


def _refuse_too_few(launches: int, confidence: float) -> None:
    """Refuse, before anything is measured, what leaves every speed level undecided."""
    from flashbench.gate import fewest_launches

    if launches < (least := fewest_launches(confidence)):
        raise InvalidInputError(
            f"--launches {launches}: no speed level can be decided at {100 * confidence:.6g} % "
            f"confidence; use --launches {least} or more, or --no-speed"
        )
