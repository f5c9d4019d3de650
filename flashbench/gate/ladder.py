"""The gate's levels in order: each is tried when those before it passed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flashbench.cost.money import Money
from flashbench.cost.spent import Spent
from flashbench.gate.level import Level
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
from flashbench.revisions import Built
from flashbench.revisions.built import plan_of_builds
from flashbench.run_plan import CutShortError, measure
from flashbench.runfile import RunFile
from flashbench.streams import Tell

_FLAG = "--run-file"


@dataclass(frozen=True)
class Ladder:
    """What a build must pass. most_stack: bytes per thread; speeds: multiples of the baseline's
    speed, ascending; plan: how these are measured, without builds; budget: as it was given."""

    most_stack: int
    speeds: Sequence[float]
    plan: Plan
    confidence: float
    budget: float | Money | None

    @property
    def names(self) -> list[str]:
        return [BUILDS, RESOURCES, CORRECT, *map(level_name, self.speeds)]


def climb(
    asked: Ladder, built: Built, path: Path, progress: Progress, tell: Tell, *, force: bool
) -> Iterator[tuple[Level, RunFile | None]]:
    """Yield the levels in order, trying each when it is asked for, and what was measured so far.

    path: the run file of the speed levels. Raises InvalidInputError; CutShortError after Ctrl-C in
    a launch; NotMeasuredError as `measure` does.
    """
    yield built_level(built), None
    kernels, project = _kernels(built), built.project
    root = project.repository / project.directory
    refused = refused_launches(root, kernels) if built.revision.worktree else []
    yield resources_level(kernels, asked.most_stack, refused), None
    yield correct_level(built), None
    if asked.speeds:
        run = _measure(asked, built, path, progress, tell, force=force)
        metric = asked.plan.metrics[0] if asked.plan.metrics else None
        report = report_one(run, metric=metric, alpha=1 - asked.confidence)
        for speed in asked.speeds:
            yield speed_level(report, speed, built.revision.text), run


def taken(done: list[Level], level: Level) -> list[Level]:
    """Append a level. A wrong result in a launch revokes a passed `correct`."""
    return [*(one for one in done if one.name != level.name), level]


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
