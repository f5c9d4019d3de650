"""Compare two revisions of the project here: build both, and measure them side by side until every
case is decided."""

from dataclasses import dataclass, replace
from pathlib import Path

from flashbench import defaults
from flashbench.comparing.tolerance import chosen_tolerance
from flashbench.cost.money import Money
from flashbench.errors import InvalidInputError
from flashbench.measuring.device_seconds import after_builds, require_start
from flashbench.measuring.plan import Plan
from flashbench.measuring.progress import Progress
from flashbench.measuring.same_plan import continued
from flashbench.revisions.announced import build_all
from flashbench.revisions.built import NEW, OLD, Built, plan_of_builds
from flashbench.revisions.project import processes_for, read
from flashbench.run_plan import RunEnd
from flashbench.runfile import Pair, RunFile
from flashbench.streams import Tell
from flashbench.until_decided import measure_pair


@dataclass(frozen=True)
class RevisionRequest:
    """What to compare. plan: without builds, and without their rule unless it completes the run
    file `resume`. tolerance: None for the file's, else what this machine can reach; budget: as it
    was given, in seconds or money; usual_launches: the plan's number is the default, so a file with
    more launches is the same comparison."""

    a: str
    b: str
    plan: Plan
    tolerance: float | None = None
    confidence: float = defaults.CONFIDENCE
    resume: Path | None = None
    budget: float | Money | None = None
    build_timeout: float = defaults.BUILD_TIMEOUT_SECONDS
    retry_build: bool = False
    even_if_same: bool = False
    usual_launches: bool = False


def compare_revisions(
    request: RevisionRequest,
    path: Path,
    flag: str,
    resumed: RunFile | None,
    progress: Progress,
    tell: Tell,
) -> RunEnd | None:
    """Measure into the run file `path`, which is claimed and named by `flag`; None if both
    revisions are one build, which is not measured.

    resumed: what the file holds. Raises InvalidInputError; NotMeasuredError if a revision cannot be
    built or loaded, and as `measure` does.
    """
    try:
        project = read(Path.cwd())
    except InvalidInputError as error:
        raise InvalidInputError(f"{request.a}: neither a file nor a revision: {error}") from None
    plan = request.plan
    if request.resume is None:
        tolerance = chosen_tolerance(request.tolerance, plan, project, resumed, tell)
        plan = replace(plan, pair=_pair(request, tolerance))
    if request.usual_launches and resumed is not None:
        plan = replace(plan, launches=max(plan.launches, resumed.settings.launches))
    require_start(replace(plan, candidates=[]))
    builds = build_all(
        project,
        {OLD: request.a, NEW: request.b},
        tell,
        timeout=request.build_timeout,
        retry_failed=request.retry_build,
    )
    # The request was measured already.
    if resumed is None and not request.even_if_same and builds[OLD].is_same_as(builds[NEW]):
        return None
    processes = processes_for(project, plan.processes)
    plan = replace(plan, processes=processes, **plan_of_builds(builds))
    if resumed is not None and request.resume is not None:
        _require_measured(builds, resumed, request.resume)
    elif resumed is not None:
        plan = continued(resumed, plan, path, flag, tell)
    plan = after_builds(plan, request.budget)
    return measure_pair(plan, path, progress, resumed, check=request.resume is None)


def _pair(request: RevisionRequest, tolerance: float) -> Pair:
    metric = request.plan.metrics[0] if request.plan.metrics else ""
    return Pair(old=OLD, new=NEW, tolerance=tolerance, confidence=request.confidence, metric=metric)


def _require_measured(builds: dict[str, Built], run: RunFile, file: Path) -> None:
    """Raise InvalidInputError unless the builds are those that the run file was measured with."""
    measured = {candidate.name: candidate.build for candidate in run.candidates}
    for name, built in builds.items():
        then = measured.get(name)
        if then is None or then.hashes != built.identity.hashes:
            raise InvalidInputError(
                f"{file}: {name} = {built.revision.label} is not the build that was measured; "
                "compare into a new file"
            )
