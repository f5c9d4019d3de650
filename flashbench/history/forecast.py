"""What measuring many commits takes."""

from collections.abc import Sequence

from flashbench.cost.forecast import Forecast, Terms, measuring_parts, source
from flashbench.machine import device_of
from flashbench.measuring.plan import Plan
from flashbench.revisions.forecast import add_builds, paired_work
from flashbench.revisions.project import Project
from flashbench.revisions.revision import Revision


def forecast_backfill(
    project: Project, commits: Sequence[Revision], plan: Plan, jobs: int, terms: Terms
) -> Forecast:
    """Forecast all commits in the same launches. jobs: builds at once."""
    device = device_of(plan.device)
    work = paired_work(project, plan, device, len(commits), len(plan.metrics or ()) or 1)
    known = terms.known(device)
    found = terms.forecast("backfill", work, known)
    add_builds(found, project, commits, jobs)
    found.parts += measuring_parts(work, known)
    found.sources.append(source(known, work))
    found.work, found.known = work, known
    return found
