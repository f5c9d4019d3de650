"""`flashbench backfill`: build many commits, measure them side by side, add them to the history."""

from pathlib import Path
from typing import Any

import click

from flashbench.cli.building import preparer_of
from flashbench.cli.grid_options import grid_options
from flashbench.cli.measuring import plan_options, tell
from flashbench.cli.options import (
    build_options,
    effort_options,
    exit_zero_option,
    force_option,
    jobs_option,
    launches_option,
    machine_option,
    metric_option,
    output_option,
    processes_options,
    results_option,
)
from flashbench.cli.parameter_types import PathType
from flashbench.cli.run_file import run_file
from flashbench.cli.settings import SettingsCommand
from flashbench.errors import Exit
from flashbench.measuring.claim import new_run_file


@click.command(
    "backfill",
    cls=SettingsCommand,
    epilog="Exit codes: 0 every commit that builds was measured and is correct, 1 one is wrong, 2 "
    "usage, 4 nothing was measured, a commit that builds crashed, hung or was not reached, or it "
    "was interrupted. A commit that does not build, or supports none of the cases, is recorded "
    "with its reason; it does not change the exit code if others were measured. Defaults: "
    "[tool.flashbench.backfill] of pyproject.toml.",
)
@click.argument("revisions", nargs=-1, metavar="[REV|A..B] ...")
@click.option(
    "--list",
    "listed",
    type=PathType(folder=False),
    metavar="FILE",
    help="Also read commits from a file: one revision per line, then any text.",
)
@grid_options
@launches_option(6)
@metric_option("Repeatable.  [default: the one of the device's verdicts]", many=True)
@effort_options
@jobs_option()
@processes_options
@build_options()
@machine_option("This machine's name in the history  [default: asv's, else the host's].")
@results_option
@exit_zero_option("Exit 0 once the measurements are saved.")
@output_option(
    "The run file; resumed if it has the same plan.  [default: backfill-<date>-<time>.json]",
    PathType(folder=False),
)
@force_option()
def command(revisions: tuple[str, ...], **options: Any) -> int:
    """Measure commits against the baseline and each other, and add them to the history.

    Builds all of them first. Then each launch, a new process (or one per commit), times them in
    turns with the baseline, so no commit gets the blame for drift. The same command with the same
    -o resumes.
    """
    from flashbench.history.backfill import BackfillRequest, keep_commits, measure_commits
    from flashbench.measuring.device_seconds import limit_name
    from flashbench.measuring.plan import Plan
    from flashbench.measuring.progress import make_progress
    from flashbench.revisions import git, read
    from flashbench.revisions.commits import commits_named

    project = read(Path.cwd())
    path = options["output"] or new_run_file("backfill")
    repository = git.root_of(project.repository)
    request = BackfillRequest(
        project,
        commits_named(project.repository, revisions, options["listed"]),
        Plan(**plan_options(options), candidates=[], metrics=list(options["metrics"])),
        repository,
        options["results"] or repository / ".asv" / "results",
        options["machine"],
        options["budget"],
    )
    preparer = preparer_of(project, options)
    with run_file(path, "-o", None, force=options["force"]) as resumed:
        end, builds = measure_commits(request, preparer, path, resumed, make_progress(), tell)
    code = keep_commits(request, builds, end, path, tell)
    if end.interrupted or end.over_budget:
        why = "interrupted" if end.interrupted else f"stopped by {limit_name(options['budget'])}"
        tell(f"{why}; the same command with -o {path} resumes")
    if end.interrupted:
        return Exit.NOT_MEASURED
    return Exit.PASS if options["exit_zero"] else code
