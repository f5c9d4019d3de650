"""`flashbench bisect`: find the commit that broke the build, the import, the result or the
speed."""

import math
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashbench import defaults
from flashbench.cli.building import preparer_of
from flashbench.cli.grid_options import grid_options
from flashbench.cli.measuring import DECIDES_BISECTION, cases_to_bisect, pair_of, plan_options, tell
from flashbench.cli.options import (
    build_options,
    case_option,
    confidence_option,
    effort_options,
    first_parent_option,
    force_option,
    jobs_option,
    launches_option,
    metric_option,
    processes_options,
    stage_option,
    table_options,
    tolerance_option,
)
from flashbench.cli.output import deliver
from flashbench.cli.settings import SettingsCommand
from flashbench.cost.money import Money
from flashbench.errors import NotMeasuredError
from flashbench.measuring.requested import price_options, rate_of
from flashbench.revisions.project import processes_for

if TYPE_CHECKING:
    from flashbench.bisect.question import Range
    from flashbench.bisect.result import BisectResult
    from flashbench.case import Case
    from flashbench.revisions.preparer import Preparer


@click.command(
    "bisect",
    cls=SettingsCommand,
    epilog="Exit codes: 1 found; 0 nothing broke or got slower in the range; 3 several candidates "
    "hidden by broken commits, undecided, or the budget was spent; 4 an end of the range cannot "
    "be built or measured, or interrupted; 2 usage. Defaults: [tool.flashbench.bisect]; what is "
    "built and called: [tool.flashbench.project].",
)
@click.option("--good", required=True, metavar="REV", help="An ancestor of --bad that works.")
@click.option(
    "--bad",
    default="HEAD",
    show_default=True,
    metavar="REV",
    help="The revision that is broken or slower.",
)
@stage_option("purpose", ["build", "load", "correct", "speed"], "What broke.")
@case_option(
    "A case as in tables, b1-h8-q512-d64-fp16-full-cpu; instead of a grid, or with --for "
    "correct instead of small cases. Repeatable.",
)
@grid_options
@metric_option("As for `compare`.")
@tolerance_option("Ignore a smaller slowdown between the two ends.", "2%")
@confidence_option("Required both to say that the ends differ and to name the culprit.", "98%")
@launches_option(defaults.LAUNCHES_UNTIL_DECIDED, "Most launches to compare the two ends.", least=2)
@effort_options
@first_parent_option
@click.option(
    "--quick", is_flag=True, help="Only halve; do not try all later commits. Not for speed."
)
@jobs_option(
    "Builds at once; for speed they may include commits that turn out not to be needed, and "
    "never run during a launch.  [default: cores, 4 at most; for speed 1]",
)
@processes_options
@build_options()
@click.option("--resume", is_flag=True, hidden=True)  # as without it, since files are kept
@force_option(
    "For speed: measure from scratch instead of reusing launches of the same earlier bisection.",
)
@table_options
@click.pass_context
def command(context: click.Context, /, **options: Any) -> int:
    """Find the commit between --good and --bad that broke something.

    For build, load and correct: the last commit that worked, the first that did not, and why. For
    speed: the commit that made a case slower, with a probability, from launches of builds side by
    side. Commits that cannot be built are skipped. --budget is wall-clock time after which no more
    commits are tried; for speed, device seconds.
    """
    from flashbench.bisect.question import range_of
    from flashbench.bisect.result import CONCLUSION_EXIT_CODES
    from flashbench.builds.running import StoppedError
    from flashbench.revisions import read
    from flashbench.revisions.preparer import default_jobs
    from flashbench.run_plan import CutShortError, signals_as_interrupt
    from flashbench.views import bisect

    purpose, cases = options["purpose"], cases_to_bisect(context)
    project = read(Path.cwd())
    asked = range_of(project, options["good"], options["bad"], first_parent=options["first_parent"])
    jobs = options["jobs"] or (1 if purpose == "speed" else default_jobs())
    try:
        with (
            signals_as_interrupt(),
            preparer_of(
                project,
                options | {"jobs": jobs},
                cases=[case.id for case in cases] if purpose == "correct" else [],
            ) as preparer,
        ):
            if purpose == "speed":
                found = _slowdown(asked, preparer, cases, jobs, options)
            else:
                found = _breakage(asked, preparer, jobs, options)
    except (KeyboardInterrupt, StoppedError, CutShortError):
        again = ["flashbench", *sys.argv[1:]]
        for name, end in (("--good", asked.good), ("--bad", asked.bad)):
            if not end.commit.startswith(end.text):  # HEAD and branches move: the last one counts
                again += [name, end.commit]
        again = [word for word in again if word != "--force"]
        raise NotMeasuredError(f"interrupted; resume with: {shlex.join(again)}") from None
    found.cost.rate = rate_of(options)
    tell(bisect.cost_line(found))
    deliver(bisect.document(found), options["output_format"], options["output"])
    return CONCLUSION_EXIT_CODES[found.conclusion]


def _breakage(
    asked: "Range", preparer: "Preparer", jobs: int, options: dict[str, Any]
) -> "BisectResult":
    from flashbench.bisect.breakage import find_breakage
    from flashbench.measuring.device_seconds import until_deadline

    builds = asked.builds()
    halving = math.ceil(math.log2(asked.graph.size + 1)) + 2
    most = halving if options["quick"] else builds
    tell(
        f"{asked.graph.size} commits, {builds} different builds; at least "
        f"{min(halving, builds)} builds, at most {most}, {jobs} at once"
    )
    _tell_plan(asked, options)
    return find_breakage(
        asked,
        options["purpose"],
        preparer,
        jobs=jobs,
        quick=options["quick"],
        budget=until_deadline(price_options(options)["budget_seconds"]),
        named=bool(options["cases"]),
        tell=tell,
    )


def _slowdown(
    asked: "Range", preparer: "Preparer", cases: "list[Case]", jobs: int, options: dict[str, Any]
) -> "BisectResult":
    from flashbench.bisect.speed import find_slowdown
    from flashbench.measuring.plan import Plan
    from flashbench.measuring.progress import make_progress

    if cases:
        options = options | {"device": cases[0].device, "operation": cases[0].operation}
    options = options | {"processes": processes_for(asked.project, options["processes"])}
    changes = asked.changes()
    if any(changes):
        _tell_plan(asked, options)
    return find_slowdown(
        asked,
        changes,
        preparer,
        Plan(**plan_options(options | {"launches": 1}), candidates=[], chosen=cases),
        pair_of(options),
        launches=options["launches"],
        jobs=jobs,
        identity=[options[name] for name in sorted({"cases", *DECIDES_BISECTION})],
        force=options["force"],
        pays_builds=isinstance(options["budget"], Money),
        progress=make_progress(),
        tell=tell,
    )


def _tell_plan(asked: "Range", options: dict[str, Any]) -> None:
    """Print the expected cost before anything starts."""
    from flashbench.cli.forecasts import of_bisection
    from flashbench.views.plan import line

    tell(line(of_bisection(asked, options)))
