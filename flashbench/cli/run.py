"""`flashbench run`: measure candidates against the baseline; write a run file; print its table."""

import os
import shlex
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashbench import defaults
from flashbench.baseline_names import is_default
from flashbench.candidates import baselines
from flashbench.cli.fleet import FREE_OF_FLEET, fleet_options, measure_on_fleet, spread
from flashbench.cli.grid_options import grid_options
from flashbench.cli.measuring import is_given, plan_options, refuse_given, tell
from flashbench.cli.options import (
    ARRANGEMENT,
    FORMATS,
    arrangement_options,
    build_options,
    candidate_option,
    effort_options,
    force_option,
    format_option,
    launches_option,
    output_option,
    resume_option,
    workers_option,
)
from flashbench.cli.output import arranged, deliver, wants_times
from flashbench.cli.parameter_types import PathType
from flashbench.cli.run_file import FREE_ON_RESUME, resumed_plan, run_file
from flashbench.cli.settings import SettingsCommand
from flashbench.errors import Exit, InvalidInputError, NotMeasuredError
from flashbench.measuring.claim import new_run_file
from flashbench.measuring.requested import how_to_build, requested_plan
from flashbench.measuring.same_plan import continued

if TYPE_CHECKING:
    from flashbench.measuring.plan import Plan
    from flashbench.run_plan import RunEnd
    from flashbench.runfile import RunFile

# With --resume the file says what to measure; only flags that do not change that are allowed.
_FREE = {"resume", "output", "force", "format_", "build_timeout", "retry_build"}
_FREE |= {*FREE_ON_RESUME, *FREE_OF_FLEET, *ARRANGEMENT}


@click.command(
    "run",
    cls=SettingsCommand,
    epilog="Exit codes: 0 measured, 1 a candidate is wrong, 2 usage, 4 a candidate could not be "
    "measured at all, or the run was interrupted. Defaults: [tool.flashbench.run] of "
    "pyproject.toml.",
)
@grid_options
@candidate_option(
    "[NAME=]MODULE:FUNCTION",
    "What to measure against the baseline; repeatable.  [default: the callable of "
    "[tool.flashbench.project], built from the working tree; without that table flashbench itself]",
    many=True,
)
@click.option(
    "--baseline-only", is_flag=True, help="Measure only the baselines; needs no extension."
)
@click.option(
    "--backends",
    default="auto",
    show_default=True,
    metavar="default|auto|all|NAME,...",
    help="Baselines besides the default. For attention SDPA's backends: cudnn, flash, efficient, "
    "math; for other operations: compile (torch.compile).",
)
@launches_option(defaults.LAUNCHES)
@effort_options
@workers_option
@build_options()
@fleet_options
@resume_option("Complete this run file.")
@output_option(
    "The run file; resumed if it has the same plan.  [default: bench-<date>-<time>.json]",
    PathType(folder=False),
)
@force_option()
@format_option([*FORMATS, "none"], "Format of the table on stdout.", "format_")
@arrangement_options
@click.pass_context
def command(context: click.Context, /, **options: Any) -> int:
    """Measure candidates against PyTorch's own operation (SDPA for attention) over a grid of cases.

    Every launch is a new process; in it the candidates of a case are checked against float64 and
    timed in turns (A/B/B/A). The run file is saved as it grows: no measurement is lost, whatever
    happens, and --resume continues it.
    """
    if options["child"]:  # first, because the next imports are slow
        _follow_parent(options)
    from flashbench.measuring.progress import make_progress
    from flashbench.revisions.working_tree import in_project
    from flashbench.run_plan import measure

    if not options["child"] and options["resume"] is not None:
        refuse_with_resume(context)
    resume, output = options["resume"], options["output"]
    if resume is not None and not is_given(context, "output"):
        output = resume
    path = output or new_run_file("bench")
    with run_file(path, "-o", resume, force=options["force"]) as resumed:
        if resume is not None:
            assert resumed is not None
            plan = plan_of_resumed(context, options, resumed)
            known = [c.name for c in resumed.candidates if c.baseline]
            known.sort(key=is_default, reverse=True)
            _refuse_unknown_columns(known, options, judged=bool(plan.candidates))
        else:
            plan = plan_of(options)
        fleet = spread(context)
        if fleet and plan.shard:
            raise InvalidInputError(f"{path} is a shard; merge it first, or resume without {fleet}")
        plan = in_project(
            plan,
            tell,
            named=bool(options["candidates"] or options["baseline_only"]),
            budget=options["budget"],
            resumed=(resumed, resume) if resume is not None and resumed is not None else None,
            fleet=fleet,
            quiet=options["child"],
            **how_to_build(options),
        )
        if resume is None and resumed is not None:
            plan = continued(resumed, plan, path, "-o", tell)
        end: RunEnd | None
        if fleet:
            end = measure_on_fleet(context, plan, path, resumed, fleet)
            if end is None:
                return Exit.PASS
        else:
            end = measure(plan, path, make_progress(), resumed, check=resume is None)
    format_ = options["format_"]
    if plan.shard and not is_given(context, "format_"):
        format_ = "none"  # most cases would be NOT MEASURED; the merged file has verdicts
    again = f"flashbench run --resume {shlex.quote(str(path))} {fleet}".rstrip()
    return finish(end, path, options | {"format_": format_}, again)


def _follow_parent(options: dict[str, Any]) -> None:
    """A fleet task resumes its part if there is one, and ends with its parent."""
    from flashbench.end_with_parent import parent_of_task, signal_when_parent_dies

    # We do not start Slurm's tasks; they die with their job.
    signal_when_parent_dies(signal.SIGTERM, parent_of_task() or os.getppid())
    if options["output"] is not None and options["output"].exists():
        options["resume"] = options["output"]


def refuse_with_resume(context: click.Context) -> None:
    """Raise InvalidInputError if an option is given that the file of --resume sets."""
    refuse_given(
        context,
        lambda name: name not in _FREE,
        "cannot be changed with --resume, the file sets it; drop the flag, or measure into a new "
        "file",
    )


def plan_of_resumed(context: click.Context, options: dict[str, Any], run: "RunFile") -> "Plan":
    """The plan that continues the file of --resume. Raises InvalidInputError for fewer launches
    than the file's."""
    plan, there = resumed_plan(context, options, run), run.settings.launches
    if plan.launches < there:
        raise InvalidInputError(
            f"--launches {plan.launches} is fewer than the {there} of {options['resume']}; "
            "launches can be added, not removed"
        )
    return plan


def plan_of(options: dict[str, Any]) -> "Plan":
    """The plan of these options, without builds."""
    plan = requested_plan(options, plan_options(options))
    known = [c.name for c in baselines("cuda", "all", options["operation"])]
    _refuse_unknown_columns(known, options, judged=bool(plan.candidates))
    return plan


def _refuse_unknown_columns(known: list[str], options: dict[str, Any], *, judged: bool) -> None:
    """Refuse --columns, --sort and --group before measuring. known: baselines, the default first;
    judged: whether there are candidates."""
    from flashbench.views import speedup

    arranged(speedup.empty_run(known, judged=judged), options)


def finish(end: "RunEnd", path: Path, options: dict[str, Any], again: str) -> int:
    """Report the file and its cost, print the table, choose the exit code.

    again: the command that resumes a run that ended early.
    """
    again = "" if options["child"] else again
    from flashbench.cost.spent import Spent, has_result
    from flashbench.fates import counted, fate
    from flashbench.measuring.device_seconds import limit_name

    run = end.measured()
    results = [result for launch in run.launches for result in launch.results]
    if end.over_budget and not any(map(has_result, results)):
        raise NotMeasuredError(
            f"{path}: the budget was spent before anything was measured; {Spent.of(run).line}"
            + (f"; resume with: {again}" if again else "")
        )
    tell(f"{path}: {counted(map(fate, results))}; {Spent.of(run).line}")
    if end.interrupted or end.failed or end.over_budget:
        why = f"stopped by {limit_name(options['budget'])}"
        if end.interrupted or end.failed:
            why = "interrupted" if end.interrupted else "unfinished"
        tell(f"{why}; resume with: {again}" if again else why)
    if end.interrupted or end.failed:
        return Exit.NOT_MEASURED
    if options["format_"] != "none":
        from flashbench.views.of_run import document

        table = document(run, times=wants_times(options, options["format_"]))
        deliver(arranged(table, options), options["format_"], None)
    return _exit_code(run)


def _exit_code(run: "RunFile") -> int:
    """1 if a candidate is wrong anywhere, 4 if one has no time at all, else 0; reports why."""
    from flashbench.fates import Fate, fate_of

    code = Exit.PASS
    subjects = [c.name for c in run.candidates if not c.baseline]
    for name in subjects or [c.name for c in run.candidates if is_default(c.name)]:
        found = fate_of(run, name)
        if found.fate is Fate.WRONG:
            tell(f"warning: {name} is {found.reason}")
            code = Exit.REGRESSION
        elif found.fate is not Fate.MEASURED:
            tell(f"warning: {name} could not be measured at all; {found.reason}")
            code = code or Exit.NOT_MEASURED
    return code
