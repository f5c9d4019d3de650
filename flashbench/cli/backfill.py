"""`flashbench backfill`: many commits built, measured side by side, and kept in the history."""

import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashbench.cli.measuring import (
    build_timeout_option,
    check_writable,
    effort_options,
    grid_options,
    plan_options,
    tell,
    tell_still,
)
from flashbench.cli.output import METRICS
from flashbench.errors import Exit, InvalidInputError, NotMeasuredError
from flashbench.settings import SettingsCommand

if TYPE_CHECKING:
    from flashbench.project import Built, Project
    from flashbench.project.revision import Revision
    from flashbench.run import Outcome, Plan
    from flashbench.runfile import RunFile


@click.command(
    "backfill",
    cls=SettingsCommand,
    epilog="Exit codes: 0 measured and kept, 2 usage, 4 no commit works, or it was interrupted. A "
    "commit that does not build or is wrong is kept as that. Defaults: "
    "[tool.flashbench.backfill] of pyproject.toml.",
)
@click.argument("revisions", nargs=-1, metavar="[REV|A..B] ...")
@click.option(
    "--list",
    "listed",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Commits from a file as well: a revision a line, then whatever it is there for.",
)
@grid_options
@click.option("--launches", type=click.IntRange(1, 10_000), default=6, show_default=True)
@click.option(
    "--metric",
    "metrics",
    type=click.Choice(METRICS),
    multiple=True,
    help="Repeatable.  [default: the one of the device's verdicts]",
)
@effort_options
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(1, 256),
    help="Builds at once.  [default: cores, 4 at most]",
)
@build_timeout_option
@click.option("--retry-build", is_flag=True, help="Build again what failed before.")
@click.option("--machine", help="Its name in the history  [default: the host's name].")
@click.option(
    "--results",
    type=click.Path(path_type=Path, file_okay=False),
    help="asv's results folder  [default: .asv/results of the repository].",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The run file; one that is there is gone on with.  [default: backfill-<date>-<time>.json]",
)
def command(revisions: tuple[str, ...], **options: Any) -> int:
    """Measure commits against SDPA and each other, and keep them in the history.

    All are built first. Each launch, a process of its own, then loads all of them and times them
    in turns with SDPA, so that what drifts with time is no commit's. The same command with the same
    -o goes on where it ended.
    """
    from flashbench import runfile
    from flashbench.history.keep import check_machine, machine_name
    from flashbench.measure.progress import make_progress
    from flashbench.project import git, read
    from flashbench.run import measure, signals_ignored

    project = read(Path.cwd())
    chosen = _chosen(project, revisions, options["listed"])
    path = options["output"] or Path(f"backfill-{datetime.now(UTC):%Y%m%d-%H%M%S}.json")
    check_writable(path, "-o")
    resumed = runfile.load(path) if path.exists() else None
    machine, host = options["machine"], socket.gethostname()
    machine_name(machine, resumed.environment.hostname if resumed else host, str(path))
    builds = _build(project, chosen, options)
    plan = _plan(options, [built for built in builds if built.site is not None])
    if not plan.candidates:
        raise NotMeasuredError(f"none of {len(builds)} commits works: {builds[0].headline}")
    if resumed is not None:
        _check_same(resumed, plan, path)
    repository = git.root_of(project.repository)
    results = options["results"] or repository / ".asv" / "results"

    def all_wanted(run: "RunFile") -> tuple[str, ...]:
        """No case is settled; but where it could not be kept, no launch more is measured."""
        check_machine(results, run.environment, str(path), machine)
        return ()

    outcome = measure(plan, path, make_progress(), resumed, all_wanted)
    with signals_ignored():  # seconds at the most; `make` that is ended passes a signal on twice
        _keep(outcome, builds, path, repository, results, machine)
    return Exit.NOT_MEASURED if outcome.interrupted else Exit.PASS


def _chosen(
    project: "Project", revisions: tuple[str, ...], listed: Path | None
) -> "list[Revision]":
    """Every commit once, in the order given."""
    from flashbench.project.commits import commits_of

    texts = [*revisions, *(_lines(listed) if listed else [])]
    if not texts:
        raise InvalidInputError("which commits? name some, a range A..B, or a file with --list")
    found = [one for text in texts for one in commits_of(project.repository, text)]
    if any(one.worktree for one in found):
        raise InvalidInputError("the working tree has no place in a history; name commits")
    return list({one.commit: one for one in found}.values())


def _lines(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path}: cannot be read: {error}") from None
    return [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]


def _build(project: "Project", chosen: "list[Revision]", options: dict[str, Any]) -> "list[Built]":
    from flashbench.build import cache_directory
    from flashbench.build.running import StoppedError
    from flashbench.project import Built
    from flashbench.project.many import Preparer, default_jobs, refuse_interrupted
    from flashbench.run import sigterm_as_interrupt

    ready: list[Built] = []

    def done(built: Built) -> None:
        ready.append(built)
        what = built.headline if built.status != "built" else f"{built.revision.label}: built"
        tell(f"{len(ready)}/{len(chosen)}: {what}")

    jobs, retry = options["jobs"] or default_jobs(), options["retry_build"]
    timeout = options["build_timeout"]
    try:
        with (
            sigterm_as_interrupt(),
            Preparer(
                project,
                cache_directory(),
                jobs=jobs,
                retry_failed=retry,
                timeout=timeout,
                still=tell_still(timeout, "--build-timeout"),
            ) as preparer,
        ):
            return preparer.prepare(chosen, "load", done)
    except (KeyboardInterrupt, StoppedError):
        raise refuse_interrupted() from None


def _plan(options: dict[str, Any], builds: "list[Built]") -> "Plan":
    from flashbench.history.names import candidate_of
    from flashbench.run import Plan

    names = {built.revision.commit: candidate_of(built) for built in builds}
    return Plan(
        **plan_options(options),
        candidates=[built.candidate(names[built.revision.commit]) for built in builds],
        sites={names[built.revision.commit]: str(built.require()) for built in builds},
        backends="default",
        launches=options["launches"],
        metrics=list(options["metrics"]),
    )


def _check_same(run: "RunFile", plan: "Plan", path: Path) -> None:
    """A file is gone on with by the command that began it."""
    device = run.cases[0].device if run.cases else ""
    there = {c.name for c in run.candidates if not c.baseline}
    different = [
        what
        for what, same in (
            ("commits", there == {c.name for c in plan.candidates}),
            ("device", plan.device in (device, "auto")),
            ("cases", bool(device) and plan.cases(device) == run.cases),
            ("--samples", plan.samples == run.settings.samples),
            ("--seed", plan.seed == run.settings.seed),
            ("--launches (fewer)", plan.launches >= run.settings.launches),
        )
        if not same
    ]
    if different:
        raise InvalidInputError(
            f"{path}: was measured with other {', '.join(different)}; measure into a new file (-o)"
        )


def _keep(
    outcome: "Outcome",
    builds: "list[Built]",
    path: Path,
    repository: Path,
    results: Path,
    machine: str | None,
) -> None:
    from flashbench.history.keep import keep
    from flashbench.history.keep_builds import keep_builds

    run = outcome.run
    if run is None or not run.launches:
        raise NotMeasuredError("interrupted before anything was measured")
    try:
        written = keep(run, str(path), results, repository, machine=machine)
        keep_builds(builds, run, results, machine)
    except OSError as error:
        raise InvalidInputError(
            f"{error.filename or results}: cannot be written: {error.strerror}"
        ) from None
    tell(
        f"{path}: {len(run.launches)} launches of {len(written)} commits, "
        f"{run.device_seconds:.1f} device seconds; kept in {written[0].parent}"
    )
    if outcome.interrupted or outcome.over_budget:
        why = "interrupted" if outcome.interrupted else "stopped by --budget"
        tell(f"{why}; the same command with -o {path} goes on")
