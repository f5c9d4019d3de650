"""`flashbench compare REV_A REV_B`: build both, measure them side by side, judge them."""

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashbench.cli.measuring import (
    after_builds,
    before_builds,
    pair_of,
    plan_options,
    refuse_given,
    tell,
)
from flashbench.cli.options import EFFORT, GRID, PROCESSES, RULE
from flashbench.cli.report_file import refuse_run_file
from flashbench.cli.run_file import continued, resumed_plan, run_file
from flashbench.cli.tolerance import default_tolerance
from flashbench.errors import InvalidInputError, NotMeasuredError
from flashbench.measuring.claim import new_run_file
from flashbench.revisions import WORKTREE
from flashbench.revisions.built import NEW, OLD, plan_of_builds
from flashbench.revisions.project import processes_for

if TYPE_CHECKING:
    from flashbench.report import Report
    from flashbench.revisions import Built
    from flashbench.run_plan import Plan, RunEnd
    from flashbench.runfile import RunFile

# With --resume the file says what to measure; only flags that do not change that are allowed.
_OF_THE_FILE = GRID | EFFORT | RULE | PROCESSES


def compare_revisions(context: click.Context, options: dict[str, Any]) -> "Report | None":
    """The report of both revisions; None if they are the same build, which is not measured.

    NotMeasuredError (exit code 4) if one cannot be built or loaded, or on an interrupt; the
    measurements so far are in the run file."""
    from flashbench.measuring.progress import make_progress
    from flashbench.report import report_pair
    from flashbench.until_decided import measure_pair

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
        options = options | {"tolerance": default_tolerance(context, options, resumed)}
        builds = _build(options)
        # The request was measured already.
        if resumed is None and not options["even_if_same"] and builds[OLD].is_same_as(builds[NEW]):
            if options["run_file"] is not None:
                tell(f"{path}: not written, because both revisions are one build")
            return None
        if resume is not None:
            assert resumed is not None
            plan = _resumed(context, options, resumed, builds)
        else:
            plan = _plan(options, builds)
            if resumed is not None:
                plan = continued(resumed, plan, path, "--run-file")
        plan = after_builds(plan, options)
        outcome = measure_pair(plan, path, make_progress(), resumed, check=resume is None)
    return report_pair(_finish(outcome, path, options))


def _build(options: dict[str, Any]) -> dict[str, "Built"]:
    """Both revisions, built. Tries both even if one fails, to report all errors at once."""
    from flashbench.revisions import read
    from flashbench.revisions.announced import build_all

    try:
        project = read(Path.cwd())
    except InvalidInputError as error:
        raise InvalidInputError(f"{options['a']}: neither a file nor a revision: {error}") from None
    before_builds(options)
    return build_all(
        project,
        {OLD: options["a"], NEW: options["b"] or WORKTREE},
        tell,
        timeout=options["build_timeout"],
        retry_failed=options["retry_build"],
    )


def _plan(options: dict[str, Any], builds: dict[str, "Built"]) -> "Plan":
    from flashbench.run_plan import Plan

    processes = processes_for(builds[OLD].project, options["processes"])
    return Plan(
        **plan_options(options | {"processes": processes}),
        **plan_of_builds(builds),
        launches=options["launches"],
        metrics=[options["metric"]] if options["metric"] else [],
        pair=pair_of(options),
    )


def _resumed(
    context: click.Context, options: dict[str, Any], run: "RunFile", builds: dict[str, "Built"]
) -> "Plan":
    if run.pair is None:
        raise InvalidInputError(f"{options['resume']}: not a comparison of two builds")
    measured = {candidate.name: candidate.build for candidate in run.candidates}
    for name, built in builds.items():
        then = measured.get(name)
        if then is None or then.hashes != built.identity.hashes:
            raise InvalidInputError(
                f"{options['resume']}: {name} = {built.revision.label} is not the build that was "
                "measured; compare into a new file"
            )
    plan = resumed_plan(context, options, run)
    launches = max(plan.launches, run.settings.launches)
    return replace(plan, launches=launches, **plan_of_builds(builds))


def _finish(outcome: "RunEnd", path: Path, options: dict[str, Any]) -> "RunFile":
    from flashbench.cost.spent import Spent
    from flashbench.measuring.device_seconds import limit_name

    run = outcome.measured()
    revisions = [options["a"], options["b"] or WORKTREE]
    again = shlex.join(["flashbench", "compare", *revisions, "--resume", str(path)])
    tell(f"{path}: {len(run.launches)} launches; {Spent.of(run).line}")
    if outcome.interrupted:
        so_far = shlex.join(["flashbench", "compare", str(path)])
        raise NotMeasuredError(f"interrupted; resume with: {again}; the verdicts so far: {so_far}")
    if outcome.over_budget:
        tell(f"stopped by {limit_name(options['budget'])}; resume with: {again}")
    return run
