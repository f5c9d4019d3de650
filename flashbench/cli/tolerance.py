"""The default tolerance of a comparison: what this machine and the budget can reach."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from flashbench.cli.measuring import device_of, plan_options, tell
from flashbench.cost import store
from flashbench.cost.estimate import Work, launches_within
from flashbench.cost.known import Basis, Experience, experience
from flashbench.errors import InvalidInputError
from flashbench.machine import attainable_tolerance, load, path
from flashbench.measuring.plan import Plan
from flashbench.metric import metric_of
from flashbench.revisions.project import Project, processes_for

if TYPE_CHECKING:
    from flashbench.runfile import RunFile


def default_tolerance(
    context: click.Context, options: dict[str, Any], resumed: "RunFile | None" = None
) -> float:
    """The tolerance of a comparison: from flag or setting; else from the resumed file, which a
    newer profile must not refuse; else the default, or the tolerance that the machine's profile
    says it can reach."""
    tolerance: float = options["tolerance"]
    if context.get_parameter_source("tolerance") is not ParameterSource.DEFAULT:
        return tolerance
    if resumed is not None and resumed.pair is not None:
        return resumed.pair.tolerance
    device = device_of(options["device"])
    try:
        profile = load(path())
    except InvalidInputError:  # the advice before the first launch reports it
        return tolerance
    metric, launches = metric_of(device, options["metric"]), launches_paid_for(options)
    why = ", for which --budget pays" if launches < options["launches"] else ""
    chosen, line = attainable_tolerance(
        profile, device, metric, options["threads"], launches, tolerance, why
    )
    if line:
        tell(line)
    return chosen


def launches_paid_for(options: dict[str, Any]) -> int:
    """Launches of a comparison of two revisions: as many as its options allow, or as the budget
    likely pays for where it is known what they take here; at least one."""
    from flashbench.revisions import read

    most: int = options["launches"]
    if options["budget"] is None:
        return most
    try:
        project = read(Path.cwd())
    except InvalidInputError:  # the build reports it
        return most
    device = device_of(options["device"])
    plan = Plan(**plan_options(options), candidates=[])
    work, known = paired_work(project, plan, device, options, 2), known_here(device, options)
    if plan.budget_seconds is None or known.level_of(work) is Basis.GUESS:
        return most
    return max(1, launches_within(plan.budget_seconds, work, known))


def paired_work(
    project: Project,
    plan: Plan,
    device: str,
    options: dict[str, Any],
    revisions: int,
    metrics: int = 1,
) -> Work:
    """Launches of these revisions with SDPA, one beside all of them or one beside each."""
    paired = processes_for(project, options["processes"]) == "paired"
    processes = revisions if paired else 1
    return Work(
        cases=plan.cases(device),
        candidates=["sdpa"] * processes + [project.callable] * revisions,
        launches=options["launches"],
        samples=plan.samples,
        min_sample_seconds=plan.min_sample_seconds,
        metrics=metrics,
        processes=processes,
        fresh=options["launches"] if options["workers"] == "fresh" else 1,
    )


def known_here(device: str, options: dict[str, Any]) -> Experience:
    """Experience with this machine, or with the one named by `on`, a part of its device's name."""
    if not options.get("on"):
        return experience(device, options["threads"])
    return Experience(device, store.load().like(device, options["on"]))
