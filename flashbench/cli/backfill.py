"""`flashbench backfill`: build many commits, measure them side by side, add them to the history."""

import socket
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from flashbench.errors import Exit, InvalidInputError, NotMeasuredError
from flashbench.measuring.claim import new_run_file
from flashbench.measuring.same_plan import continued
from flashbench.revisions.project import processes_for

if TYPE_CHECKING:
    from flashbench.measuring.plan import Plan
    from flashbench.revisions import Built, Project
    from flashbench.revisions.revision import Revision
    from flashbench.runfile import RunFile


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
    from flashbench.history import machines
    from flashbench.measuring.device_seconds import after_builds, limit_name, require_start
    from flashbench.measuring.plan import Plan
    from flashbench.measuring.progress import make_progress
    from flashbench.revisions import git, read
    from flashbench.revisions.built import seconds_of
    from flashbench.revisions.commits import commits_named
    from flashbench.run_plan import measure, signals_ignored

    project = read(Path.cwd())
    chosen = commits_named(project.repository, revisions, options["listed"])
    path = options["output"] or new_run_file("backfill")
    repository = git.root_of(project.repository)
    results = options["results"] or repository / ".asv" / "results"
    machine, host = options["machine"], socket.gethostname()
    with run_file(path, "-o", None, force=options["force"]) as resumed:
        measured_on = resumed.environment.hostname if resumed else host
        named = machines.choose(machine, measured_on, str(path))
        tell(f"kept as machine {named.name}: {named.why}")
        require_start(Plan(**plan_options(options), candidates=[]))
        builds = _build(project, chosen, options)
        plan = _plan(options, project, [built for built in builds if built.import_root is not None])
        plan = after_builds(replace(plan, build_seconds=seconds_of(builds)), options["budget"])
        if not plan.candidates:
            raise NotMeasuredError(f"none of {len(builds)} commits works: {builds[0].headline}")
        if resumed is not None:
            plan = continued(resumed, plan, path, "-o", tell, called="commits")

        def all_wanted(run: "RunFile") -> tuple[str, ...]:
            """No case is ever settled, but after a failed save no further launch is measured."""
            machines.require_same(results, run.environment, str(path), machine)
            return ()

        end = measure(plan, path, make_progress(), resumed, all_wanted, check=True)
    run = end.measured()
    code = _tell_fates(run, builds)
    with signals_ignored():  # at most seconds; an interrupted `make` forwards a signal twice
        _keep(run, builds, path, repository, results, machine)
    if end.interrupted or end.over_budget:
        why = "interrupted" if end.interrupted else f"stopped by {limit_name(options['budget'])}"
        tell(f"{why}; the same command with -o {path} resumes")
    if end.interrupted:
        return Exit.NOT_MEASURED
    return Exit.PASS if options["exit_zero"] else code


def _build(project: "Project", chosen: "list[Revision]", options: dict[str, Any]) -> "list[Built]":
    from flashbench.builds.running import StoppedError
    from flashbench.revisions import Built
    from flashbench.revisions.preparer import refuse_interrupted
    from flashbench.run_plan import signals_as_interrupt

    ready: list[Built] = []

    def done(built: Built) -> None:
        ready.append(built)
        what = built.headline if built.status != "built" else f"{built.revision.label}: built"
        tell(f"{len(ready)}/{len(chosen)}: {what}")

    try:
        with signals_as_interrupt(), preparer_of(project, options) as preparer:
            return preparer.prepare(chosen, "load", done)
    except (KeyboardInterrupt, StoppedError):
        raise refuse_interrupted() from None


def _plan(options: dict[str, Any], project: "Project", builds: "list[Built]") -> "Plan":
    from flashbench.history.names import candidate_of
    from flashbench.measuring.plan import Plan

    names = {built.revision.commit: candidate_of(built) for built in builds}
    return Plan(
        **plan_options(options | {"processes": processes_for(project, options["processes"])}),
        candidates=[built.candidate(names[built.revision.commit]) for built in builds],
        import_roots={names[built.revision.commit]: str(built.require()) for built in builds},
        repository=str(project.repository),
        backends="default",
        metrics=list(options["metrics"]),
    )


def _keep(
    run: "RunFile",
    builds: "list[Built]",
    path: Path,
    repository: Path,
    results: Path,
    machine: str | None,
) -> None:
    from flashbench.cost.spent import Spent
    from flashbench.history.doubts import doubts
    from flashbench.history.keep_builds import keep_builds
    from flashbench.history.to_asv import keep

    for doubt in doubts(run):  # keep what was measured
        tell(f"warning: {path}: {doubt}")
    try:
        written = keep(run, str(path), results, repository, machine=machine)
        keep_builds(builds, run, results, machine)
    except OSError as error:
        raise InvalidInputError(
            f"{error.filename or results}: cannot be written: {error.strerror}"
        ) from None
    tell(f"{path}: {len(run.launches)} launches; {Spent.of(run).line}; kept in {written[0].parent}")


def _tell_fates(run: "RunFile", builds: "list[Built]") -> Exit:
    """Name each incomplete commit with its reason, then count them. Returns the exit code: 1 if a
    commit is wrong, 4 if none was measured or one that builds was not, else 0."""
    from flashbench.history.names import candidate_of
    from flashbench.tally import Fate, counted, fate_of

    fates = []
    for built in builds:
        if built.import_root is None:
            tell(f"warning: {built.headline}")
            continue
        found = fate_of(run, candidate_of(built))
        fates.append(found.fate)
        if found.reason:
            tell(f"warning: {built.revision.label}: {found.reason}")
    unbuilt = len(builds) - len(fates)
    rest = f", {unbuilt} did not build" if unbuilt else ""
    tell(f"{len(builds)} commit{'s' * (len(builds) != 1)}: {counted(fates)}{rest}")
    if Fate.WRONG in fates:
        return Exit.REGRESSION
    if Fate.MEASURED not in fates or {Fate.FAILED, Fate.UNREACHED} & set(fates):
        return Exit.NOT_MEASURED
    return Exit.PASS
