"""`flashbench compare REV_A REV_B`: build both, measure them side by side, judge them."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from flashbench.cli.grid_options import GRID_OPTIONS
from flashbench.cli.measuring import plan_options, refuse_given, said_tolerance, tell
from flashbench.cli.options import EFFORT_OPTIONS, PROCESS_OPTIONS, RULE_OPTIONS
from flashbench.cli.report_file import refuse_run_file
from flashbench.cli.run_file import resumed_plan, run_file, tell_end
from flashbench.errors import InvalidInputError
from flashbench.measuring.claim import new_run_file
from flashbench.revisions import WORKTREE

if TYPE_CHECKING:
    from flashbench.measuring.plan import Plan
    from flashbench.report import Report
    from flashbench.run_plan import RunEnd
    from flashbench.runfile import RunFile

# With --resume the file says what to measure; only flags that do not change that are allowed.
_OF_THE_FILE = GRID_OPTIONS | EFFORT_OPTIONS | RULE_OPTIONS | PROCESS_OPTIONS


def report_of_revisions(context: click.Context, options: dict[str, Any]) -> "Report | None":
    """The report of both revisions; None if they are the same build, which is not measured.

    NotMeasuredError (exit code 4) if one cannot be built or loaded, or on an interrupt; the
    measurements so far are in the run file."""
    from flashbench.comparing.revisions import RevisionRequest, compare_revisions
    from flashbench.measuring.progress import make_progress
    from flashbench.report import report_pair

    if options["against"] != "sdpa":
        raise InvalidInputError(
            "--against is for one run file; revisions are compared with another"
        )
    resume = options["resume"]
    if resume is not None:
        refuse_given(
            context,
            _OF_THE_FILE.__contains__,
            "cannot be changed with --resume, the file sets it; drop the flag, or compare into a "
            "new file",
        )
    path = options["run_file"] or resume or new_run_file("compare")
    refuse_run_file(options["output"], path)
    with run_file(path, "--run-file", resume, force=options["force"]) as resumed:
        request = RevisionRequest(
            options["a"],
            options["b"] or WORKTREE,
            _plan(context, options, resumed),
            tolerance=said_tolerance(context),
            confidence=options["confidence"],
            resume=resume,
            budget=options["budget"],
            build_timeout=options["build_timeout"],
            retry_build=options["retry_build"],
            even_if_same=options["even_if_same"],
            usual_launches=context.get_parameter_source("launches") is ParameterSource.DEFAULT,
        )
        end = compare_revisions(request, path, "--run-file", resumed, make_progress(), tell)
    if end is not None:
        return report_pair(_finish(end, path, options))
    if options["run_file"] is not None:
        tell(f"{path}: not written, because both revisions are one build")
    return None


def _plan(context: click.Context, options: dict[str, Any], resumed: "RunFile | None") -> "Plan":
    """The plan without builds, or with --resume what completes the file."""
    from flashbench.measuring.plan import Plan

    if options["resume"] is None:
        metrics = [options["metric"]] if options["metric"] else []
        return Plan(**plan_options(options), candidates=[], metrics=metrics)
    assert resumed is not None
    if resumed.pair is None:
        raise InvalidInputError(f"{options['resume']}: not a comparison of two builds")
    plan = resumed_plan(context, options, resumed)
    return replace(plan, launches=max(plan.launches, resumed.settings.launches))


def _finish(end: "RunEnd", path: Path, options: dict[str, Any]) -> "RunFile":
    from flashbench.cost.spent import Spent

    run = end.measured()
    revisions = [options["a"], options["b"] or WORKTREE]
    again = shlex.join(["flashbench", "compare", *revisions, "--resume", str(path)])
    tell(f"{path}: {len(run.launches)} launches; {Spent.of(run).line}")
    tell_end(end, path, again, options)
    return run
