"""The tolerance of a comparison: by default what this machine and the budget can reach."""

from flashbench import defaults
from flashbench.cost.estimate import launches_within
from flashbench.cost.known import Basis, experience
from flashbench.errors import InvalidInputError
from flashbench.machine import attainable_tolerance, device_of, path, read
from flashbench.measuring.plan import Plan
from flashbench.metric import metric_of
from flashbench.revisions.forecast import paired_work
from flashbench.revisions.project import Project
from flashbench.runfile import RunFile
from flashbench.streams import Tell


def chosen_tolerance(
    said: float | None,
    plan: Plan,
    project: Project,
    resumed: RunFile | None,
    tell: Tell,
) -> float:
    """The tolerance that was given; else the resumed file's, even if the profile has changed since;
    else the default, or what this machine can reach by its profile. tell: prints a line."""
    if said is not None:
        return said
    if resumed is not None and resumed.pair is not None:
        return resumed.pair.tolerance
    device = device_of(plan.device)
    try:
        profile = read(path())
    except InvalidInputError:  # the advice before the first launch reports it
        return defaults.TOLERANCE
    metric = metric_of(device, plan.metrics[0] if plan.metrics else None)
    launches = _launches_paid_for(plan, project, device)
    why = ", for which --budget pays" if launches < plan.launches else ""
    chosen, line = attainable_tolerance(
        profile, device, metric, plan.threads, launches, defaults.TOLERANCE, why
    )
    if line:
        tell(line)
    return chosen


def _launches_paid_for(plan: Plan, project: Project, device: str) -> int:
    """As many launches as the plan allows, or as the budget likely pays for where it is known what
    they take here; at least one."""
    if plan.budget_seconds is None:
        return plan.launches
    work, known = paired_work(project, plan, device, 2), experience(device, plan.threads)
    if known.level_of(work) is Basis.GUESS:
        return plan.launches
    return max(1, launches_within(plan.budget_seconds, work, known))
