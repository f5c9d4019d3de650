"""`flashbench gate`: does it build, fit, compute correctly, run fast enough? Stops at the first
failing level."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashbench.cli.building import build_revision
from flashbench.cli.measuring import plan_options, rate_of, tell
from flashbench.cli.options import (
    FORMATS,
    JOINT,
    build_options,
    confidence_option,
    effort_options,
    force_option,
    grid_options,
    launches_option,
    metric_option,
)
from flashbench.cli.output import deliver
from flashbench.cli.parameter_types import Count, Number, PathType
from flashbench.cli.report_file import ReportFile, refuse_run_file
from flashbench.cli.run_file import interrupted, run_file
from flashbench.cost.spent import Spent
from flashbench.errors import InvalidInputError
from flashbench.measuring.claim import new_run_file
from flashbench.measuring.same_plan import continued
from flashbench.revisions import WORKTREE
from flashbench.settings import SettingsCommand

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flashbench.gate import Level
    from flashbench.preflight.build.resources import KernelUse
    from flashbench.preflight.finding import CannotCheck
    from flashbench.report import Report
    from flashbench.revisions import Built

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
@click.option("--run-file", type=PathType(folder=False))
@force_option
@click.option("--format", "output_format", type=click.Choice(FORMATS), default="text")
@click.option("-o", "--output", type=ReportFile())
def command(revision: str, **options: Any) -> int:
    """Does it build, fit, compute correctly, and run fast enough?

    Tries the levels in this order, stops at the first that does not pass, and prints the next step.
    REVISION: the working tree by default.
    """
    from flashbench.gate import Level, State
    from flashbench.gate.level import EXIT_CODES
    from flashbench.views import gate

    if not options["no_speed"]:
        _refuse_too_few(options["launches"], options["confidence"])
    path = options["run_file"] or new_run_file("gate")
    refuse_run_file(options["output"], path)
    names = ["builds", "resources fit", "correct"]
    speeds = [] if options["no_speed"] else sorted(set(options["speeds"]))
    names += [f"at least {speed:g}x" for speed in speeds]
    done: list[Level] = []
    spent = [Spent(rate=rate_of(options))]
    for level in _levels(revision, speeds, path, options, spent):
        done = _taken(done, level)
        tell(f"{level.name}: {level.state}: {level.evidence}")
        if level.state is not State.PASSED:
            break
    code = EXIT_CODES[done[-1].state]
    done += [Level(name, State.NOT_REACHED) for name in names[len(done) :]]
    document = gate.document(f"gate of {revision}", done, spent[-1])
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


def _taken(done: "list[Level]", level: "Level") -> "list[Level]":
    """Append a level. A wrong result in a launch revokes a passed `correct`."""
    return [*(one for one in done if one.name != level.name), level]


def _levels(
    revision: str, speeds: list[float], path: Path, options: dict[str, Any], spent: "list[Spent]"
) -> "Iterator[Level]":
    """Yield the levels in order, trying each when it is asked for. path: the run file; spent: what
    was spent so far is added to it."""
    from flashbench.gate import built_level, correct_level, resources_level, speed_level
    from flashbench.preflight.build.refused import refused_launches
    from flashbench.revisions import read, resolve
    from flashbench.revisions.built import seconds_of

    project = read(Path.cwd())
    chosen = resolve(project.repository, revision)
    built = build_revision(project, chosen, project.callable, options, stage="correct")
    spent.append(replace(spent[-1], builds=seconds_of([built])))
    yield built_level(built)
    kernels = _kernels(built)
    root = project.repository / project.directory
    refused = refused_launches(root, kernels) if chosen.worktree else []
    yield resources_level(kernels, options["most_stack"], refused)
    yield correct_level(built)
    if speeds:
        report = _measure(built, path, options)
        spent.append(Spent.of(report.data[0].run))
        yield from (speed_level(report, speed, revision) for speed in speeds)


def _kernels(built: "Built") -> "list[KernelUse] | CannotCheck":
    """The resources of a build's kernels, or why they are unknown here."""
    from flashbench.preflight.build.resources import read_kernels
    from flashbench.preflight.finding import CannotCheck

    try:
        return read_kernels(sorted((Path(built.build.directory) / "lib").rglob("*.so")))
    except CannotCheck as reason:
        return reason


def _measure(built: "Built", path: Path, options: dict[str, Any]) -> "Report":
    """Measure the candidate against SDPA into a run file that is kept."""
    from flashbench.measuring.device_seconds import after_builds
    from flashbench.measuring.progress import make_progress
    from flashbench.report import report_one
    from flashbench.revisions.built import plan_of_builds
    from flashbench.run_plan import Plan, measure

    plan = Plan(
        **plan_options(options),
        **plan_of_builds({"candidate": built}),
        metrics=[options["metric"]] if options["metric"] else None,
    )
    with run_file(path, "--run-file", None, force=options["force"]) as resumed:
        if resumed is not None:
            plan = continued(resumed, plan, path, "--run-file", tell)
        plan = after_builds(plan, options["budget"])
        outcome = measure(plan, path, make_progress(), resumed)
    run = outcome.measured()
    if outcome.interrupted:
        raise interrupted(path, named=options["run_file"] is not None)
    tell(f"{path}: {Spent.of(run).line}")
    return report_one(run, metric=options["metric"], alpha=1 - options["confidence"])
