"""What `run` measures in a project: its callable, built from the working tree."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from flashbench.candidates import require_ours
from flashbench.cost.money import Money
from flashbench.errors import InvalidInputError
from flashbench.measuring.device_seconds import after_builds, require_start
from flashbench.measuring.plan import Plan
from flashbench.measuring.remaining import unfinished_launches
from flashbench.revisions.announced import build_working_tree, callable_of
from flashbench.revisions.built import Built, with_builds
from flashbench.revisions.project import Project, find
from flashbench.revisions.revision import WORKTREE
from flashbench.runfile import Candidate, RunFile
from flashbench.streams import Tell


def in_project(
    plan: Plan,
    tell: Tell,
    *,
    named: bool,
    budget: float | Money | None,
    resumed: tuple[RunFile, Path] | None = None,
    fleet: str = "",
    quiet: bool = False,
    **how: Any,
) -> Plan:
    """The plan for the project here: it measures the project's callable, built from the working
    tree, unless candidates are named or a resumed file has others, and says so.

    tell: prints a line. named: the user named the candidates, or none. resumed: with its path.
    fleet: the flags that spread the run over devices; Slurm tasks build where they measure. quiet:
    only builds are announced. how: as in `build_working_tree`. Raises InvalidInputError;
    NotMeasuredError if a build fails or leaves nothing of the budget.
    """
    announce = (lambda text: None) if quiet else tell
    project = find(Path.cwd())
    if resumed is not None:
        trees = [] if _is_whole(plan, resumed[0]) else _of_working_tree(resumed[0])
    elif named:
        trees = []
        for candidate in plan.candidates if project else ():
            announce(f"measuring {candidate.name} = {candidate.spec}, as it is imported here")
    elif project is None:
        require_ours(plan.operation)
        if not fleet:
            announce("measuring flashbench's own attention: no [tool.flashbench.project] here")
        return plan
    else:
        trees = [callable_of(project)]
        plan = replace(plan, candidates=trees)
    plan = replace(plan, import_root="" if project is None else str(project.import_root))
    if not trees or fleet.startswith("--slurm"):
        return plan
    require_start(plan)
    if resumed is None:
        assert project is not None
        built = {one.name: build_working_tree(project, tell, **how) for one in trees}
    else:
        built = {one.name: build_again(project, one, resumed[1], tell, **how) for one in trees}
    return after_builds(with_builds(plan, built), budget)


def build_again(
    project: Project | None,
    measured: Candidate,
    file: Path,
    tell: Tell,
    **how: Any,
) -> Built:
    """Build the working tree again to resume a run file; InvalidInputError if it differs from the
    measured build. how: as in `build_working_tree`."""
    if project is None or project.callable != measured.spec:
        why = f"{measured.spec} is not the callable of the project here"
    else:
        built = build_working_tree(project, tell, **how)
        if built.identity.hashes == measured.build.hashes:
            return built
        why = f"{built.revision.label} is not the build that was measured"
    raise InvalidInputError(f"{file}: {measured.name}: {why}; measure into a new file")


def _of_working_tree(run: RunFile) -> list[Candidate]:
    """The candidates built from a working tree for `run`."""
    if run.pair is not None:
        return []
    return [candidate for candidate in run.candidates if candidate.build.revision == WORKTREE]


def _is_whole(plan: Plan, run: RunFile) -> bool:
    """Whether the run is complete, so nothing must be built."""
    return plan.launches == run.settings.launches and not unfinished_launches(run)
