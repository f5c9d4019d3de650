"""Build many commits, measure them side by side, and add them to the history."""

import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flashbench.builds.running import StoppedError
from flashbench.cost.money import Money
from flashbench.cost.spent import Spent
from flashbench.errors import Exit, InvalidInputError, NotMeasuredError
from flashbench.fates import Fate, counted, fate_of
from flashbench.history import machines
from flashbench.history.doubts import doubts
from flashbench.history.keep_builds import keep_builds
from flashbench.history.names import candidate_of
from flashbench.history.to_asv import keep
from flashbench.measuring.device_seconds import after_builds, require_start
from flashbench.measuring.plan import Plan
from flashbench.measuring.progress import Progress
from flashbench.measuring.same_plan import continued
from flashbench.revisions.built import Built, plan_of_builds, seconds_of
from flashbench.revisions.preparer import Preparer, refuse_interrupted
from flashbench.revisions.project import Project, processes_for
from flashbench.revisions.revision import Revision
from flashbench.run_plan import RunEnd, measure, signals_as_interrupt, signals_ignored
from flashbench.runfile import RunFile
from flashbench.streams import Tell


@dataclass(frozen=True)
class BackfillRequest:
    """What to measure and where to keep it. plan: without builds. results: asv's folder; machine:
    this one's name there, None for asv's or the host's; budget: as it was given, in seconds or
    money."""

    project: Project
    commits: Sequence[Revision]
    plan: Plan
    repository: Path
    results: Path
    machine: str | None = None
    budget: float | Money | None = None


def measure_commits(
    request: BackfillRequest,
    preparer: Preparer,
    path: Path,
    resumed: RunFile | None,
    progress: Progress,
    tell: Tell,
) -> tuple[RunEnd, list[Built]]:
    """Build the commits, and measure those that work into the run file `path`, which is claimed.

    resumed: what the file holds. Raises InvalidInputError; NotMeasuredError if no commit works, and
    as `measure` does.
    """
    measured_on = resumed.environment.hostname if resumed else socket.gethostname()
    named = machines.choose(request.machine, measured_on, str(path))
    tell(f"kept as machine {named.name}: {named.why}")
    require_start(request.plan)
    builds = _build(request, preparer, tell)
    works = {candidate_of(built): built for built in builds if built.import_root is not None}
    if not works:
        raise NotMeasuredError(f"none of {len(builds)} commits works: {builds[0].headline}")
    processes = processes_for(request.project, request.plan.processes)
    plan = replace(request.plan, processes=processes, **plan_of_builds(works))
    plan = after_builds(replace(plan, build_seconds=seconds_of(builds)), request.budget)
    if resumed is not None:
        plan = continued(resumed, plan, path, "-o", tell, called="commits")

    def all_wanted(run: RunFile) -> tuple[str, ...]:
        """No case is ever settled, but after a failed save no further launch is measured."""
        machines.require_same(request.results, run.environment, str(path), request.machine)
        return ()

    return measure(plan, path, progress, resumed, all_wanted, check=True), builds


def keep_commits(
    request: BackfillRequest, builds: Sequence[Built], end: RunEnd, path: Path, tell: Tell
) -> Exit:
    """Tell what became of each commit, and add all to the history. Raises NotMeasuredError if
    nothing was measured, InvalidInputError if the history cannot be written."""
    run = end.measured()
    code = _tell_fates(run, builds, tell)
    with signals_ignored():  # at most seconds; an interrupted `make` forwards a signal twice
        _keep(request, run, builds, path, tell)
    return code


def _build(request: BackfillRequest, preparer: Preparer, tell: Tell) -> list[Built]:
    ready: list[Built] = []

    def done(built: Built) -> None:
        ready.append(built)
        what = built.headline if built.status != "built" else f"{built.revision.label}: built"
        tell(f"{len(ready)}/{len(request.commits)}: {what}")

    try:
        with signals_as_interrupt(), preparer:
            return preparer.prepare(request.commits, "load", done)
    except (KeyboardInterrupt, StoppedError):
        raise refuse_interrupted() from None


def _keep(
    request: BackfillRequest, run: RunFile, builds: Sequence[Built], path: Path, tell: Tell
) -> None:
    for doubt in doubts(run):  # keep what was measured
        tell(f"warning: {path}: {doubt}")
    results, machine = request.results, request.machine
    try:
        written = keep(run, str(path), results, request.repository, machine=machine)
        keep_builds(builds, run, results, machine)
    except OSError as error:
        raise InvalidInputError(
            f"{error.filename or results}: cannot be written: {error.strerror}"
        ) from None
    tell(f"{path}: {len(run.launches)} launches; {Spent.of(run).line}; kept in {written[0].parent}")


def _tell_fates(run: RunFile, builds: Sequence[Built], tell: Tell) -> Exit:
    """Name each incomplete commit with its reason, then count them. Returns the exit code: 1 if a
    commit is wrong, 4 if none was measured or one that builds was not, else 0."""
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
