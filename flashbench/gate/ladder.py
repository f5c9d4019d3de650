"""The gate's levels in order: each is tried when those before it passed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flashbench import defaults
from flashbench.cost.money import Money
from flashbench.cost.spent import Spent
from flashbench.gate.level import Level, State
from flashbench.gate.levels import (
    BUILDS,
    CORRECT,
    RESOURCES,
    built_level,
    correct_level,
    resources_level,
)
from flashbench.gate.speed import level_name, speed_level
from flashbench.measuring.claim import claimed
from flashbench.measuring.device_seconds import after_builds
from flashbench.measuring.plan import Plan
from flashbench.measuring.progress import Progress
from flashbench.measuring.same_plan import continued
from flashbench.preflight.build.refused import refused_launches
from flashbench.preflight.build.resources import KernelUse, read_kernels
from flashbench.preflight.finding import CannotCheck
from flashbench.report import report_one
from flashbench.revisions import Built, read, resolve
from flashbench.revisions.announced import build_one
from flashbench.revisions.built import plan_of_builds, seconds_of
from flashbench.run_plan import CutShortError, measure
from flashbench.runfile import RunFile

Tell = Callable[[str], None]  # prints a line
_FLAG = "--run-file"


@dataclass(frozen=True)
class Ladder:
    """What a revision must pass. speeds: multiples of the baseline's speed, ascending; plan: how
    these are measured, without builds; most_stack: bytes per thread; budget: as it was given, in
    seconds or money."""

    revision: str
    speeds: Sequence[float]
    plan: Plan
    confidence: float
    most_stack: int
    budget: float | Money | None = None
    build_timeout: float = defaults.BUILD_TIMEOUT_SECONDS
    retry_build: bool = False

    @property
    def names(self) -> list[str]:
        return [BUILDS, RESOURCES, CORRECT, *map(level_name, self.speeds)]


def climb(
    asked: Ladder, path: Path, progress: Progress, tell: Tell, *, force: bool, spent: Spent
) -> Iterator[tuple[list[Level], Spent]]:
    """Yield the levels tried so far and what was spent, after each level until one does not pass.

    path: the run file of the speed levels; spent: nothing yet. Raises InvalidInputError;
    CutShortError after Ctrl-C in a launch; NotMeasuredError as `measure` does.
    """
    done: list[Level] = []
    for level, so_far in _levels(asked, path, progress, tell, force=force, spent=spent):
        done = taken(done, level)
        yield done, so_far
        if level.state is not State.PASSED:
            return


def taken(done: list[Level], level: Level) -> list[Level]:
    """Append a level. A wrong result in a launch revokes a passed `correct`."""
    return [*(one for one in done if one.name != level.name), level]


def _levels(
    asked: Ladder, path: Path, progress: Progress, tell: Tell, *, force: bool, spent: Spent
) -> Iterator[tuple[Level, Spent]]:
    project = read(Path.cwd())
    chosen = resolve(project.repository, asked.revision)
    built = build_one(
        project,
        chosen,
        project.callable,
        tell,
        stage="correct",
        timeout=asked.build_timeout,
        retry_failed=asked.retry_build,
    )
    spent = replace(spent, builds=seconds_of([built]))
    yield built_level(built), spent
    kernels = _kernels(built)
    root = project.repository / project.directory
    refused = refused_launches(root, kernels) if chosen.worktree else []
    yield resources_level(kernels, asked.most_stack, refused), spent
    yield correct_level(built), spent
    if asked.speeds:
        run = _measure(asked, built, path, progress, tell, force=force)
        metric = asked.plan.metrics[0] if asked.plan.metrics else None
        report = report_one(run, metric=metric, alpha=1 - asked.confidence)
        for speed in asked.speeds:
            yield speed_level(report, speed, asked.revision), Spent.of(run)


def _kernels(built: Built) -> list[KernelUse] | CannotCheck:
    """The resources of a build's kernels, or why they are unknown here."""
    try:
        return read_kernels(sorted((Path(built.build.directory) / "lib").rglob("*.so")))
    except CannotCheck as reason:
        return reason


def _measure(
    asked: Ladder, built: Built, path: Path, progress: Progress, tell: Tell, *, force: bool
) -> RunFile:
    """Measure the build against the baseline into a run file that is kept."""
    plan = replace(asked.plan, **plan_of_builds({"candidate": built}))
    with claimed(path, _FLAG, force=force, tell=tell) as resumed:
        if resumed is not None:
            plan = continued(resumed, plan, path, _FLAG, tell)
        end = measure(after_builds(plan, asked.budget), path, progress, resumed)
    run = end.measured()
    if end.interrupted:
        raise CutShortError
    tell(f"{path}: {Spent.of(run).line}")
    return run
