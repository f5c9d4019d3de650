"""Build revisions for commands that measure them, and report on stderr."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashbench.candidates import require_ours
from flashbench.cli.measuring import tell, tell_still
from flashbench.errors import InvalidInputError

if TYPE_CHECKING:
    from flashbench.measuring.plan import Plan
    from flashbench.revisions import Built, Project
    from flashbench.revisions.many import Preparer
    from flashbench.runfile import Candidate, RunFile


def how_to_build(options: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `build_one` that --build-timeout and --retry-build give."""
    return {"timeout": options["build_timeout"], "retry_failed": options["retry_build"]}


def preparer_of(
    project: "Project",
    options: dict[str, Any],
    *,
    cases: Sequence[str] = (),
    flag: str = "--build-timeout",
) -> "Preparer":
    """A Preparer with these options. cases: to check; flag: the option of the time-out."""
    from flashbench.builds import cache_directory
    from flashbench.revisions.many import Preparer, default_jobs

    timeout = options["build_timeout"]
    return Preparer(
        project,
        cache_directory(),
        jobs=options["jobs"] or default_jobs(),
        retry_failed=options["retry_build"],
        timeout=timeout,
        cases=cases,
        still=tell_still(timeout, flag),
    )


def rebuild(
    project: "Project | None", measured: "Candidate", options: dict[str, Any], file: Path
) -> "Built":
    """Build the working tree again to resume a run file; InvalidInputError if it differs from the
    measured build."""
    from flashbench.revisions.announced import build_working_tree

    if project is None or project.callable != measured.spec:
        why = f"{measured.spec} is not the callable of the project here"
    else:
        built = build_working_tree(project, tell, **how_to_build(options))
        if built.identity.hashes == measured.build.hashes:
            return built
        why = f"{built.revision.label} is not the build that was measured"
    raise InvalidInputError(f"{file}: {measured.name}: {why}; measure into a new file")


def of_project(
    plan: "Plan",
    options: dict[str, Any],
    say: Callable[[str], None],
    resumed: "RunFile | None" = None,
    fleet: str = "",
) -> "Plan":
    """A plan of `run` in the project here: it measures the project's callable, built from the
    working tree, unless flags or the resumed file name something else, and says so.

    say: prints a line. fleet: from `spread`; Slurm tasks build where they measure.
    """
    from flashbench.measuring.device_seconds import after_builds, require_start
    from flashbench.revisions import find
    from flashbench.revisions.announced import build_working_tree, callable_of
    from flashbench.revisions.built import with_builds

    announce = (lambda text: None) if options["child"] else say  # its parent has
    project = find(Path.cwd())
    if resumed is not None:
        trees = [] if _is_whole(plan, resumed) else _of_working_tree(resumed)
    elif options["candidates"] or options["baseline_only"]:
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
    built = {
        one.name: build_working_tree(project, say, **how_to_build(options))
        if project is not None and resumed is None
        else rebuild(project, one, options, options["resume"])
        for one in trees
    }
    return after_builds(with_builds(plan, built), options["budget"])


def _of_working_tree(run: "RunFile") -> "list[Candidate]":
    """The candidates built from a working tree for `run`."""
    from flashbench.revisions import WORKTREE

    if run.pair is not None:
        return []
    return [candidate for candidate in run.candidates if candidate.build.revision == WORKTREE]


def _is_whole(plan: "Plan", run: "RunFile") -> bool:
    """Whether the run is complete, so nothing must be built."""
    from flashbench.fleet.merge import unfinished_launches

    return plan.launches == run.settings.launches and not unfinished_launches(run)
