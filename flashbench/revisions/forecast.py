"""What measuring revisions takes: their launches."""

from flashbench.cost.estimate import Work
from flashbench.measuring.plan import Plan
from flashbench.revisions.project import Project, processes_for


def paired_work(
    project: Project, plan: Plan, device: str, revisions: int, metrics: int = 1
) -> Work:
    """The plan's launches of so many revisions with the baseline, one beside all of them or one
    beside each."""
    paired = processes_for(project, plan.processes) == "paired"
    processes = revisions if paired else 1
    return Work(
        cases=plan.cases(device),
        candidates=["sdpa"] * processes + [project.callable] * revisions,
        launches=plan.launches,
        samples=plan.samples,
        min_sample_seconds=plan.min_sample_seconds,
        metrics=metrics,
        processes=processes,
        fresh=plan.launches if plan.workers == "fresh" else 1,
    )
