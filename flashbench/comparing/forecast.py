"""What a comparison of two revisions takes."""

from pathlib import Path

from flashbench.comparing.revisions import RevisionRequest
from flashbench.comparing.tolerance import chosen_tolerance
from flashbench.cost.forecast import Forecast, Terms, parts_until_decided, source
from flashbench.machine import device_of
from flashbench.revisions.forecast import add_builds, paired_work
from flashbench.revisions.project import read
from flashbench.revisions.revision import resolve
from flashbench.streams import Tell


def forecast_comparison(request: RevisionRequest, terms: Terms, tell: Tell) -> Forecast:
    """Forecast launches of both revisions until every case is decided."""
    project = read(Path.cwd())
    revisions = [resolve(project.repository, text) for text in (request.a, request.b)]
    device = device_of(request.plan.device)
    work = paired_work(project, request.plan, device, 2)
    known = terms.known(device)
    found = terms.forecast("compare", work, known)
    add_builds(found, project, revisions, 1)
    tolerance = chosen_tolerance(request.tolerance, request.plan, project, None, tell)
    parts, launches = parts_until_decided(work, known, tolerance, request.confidence)
    found.parts += parts
    found.sources += [source(known, work), launches]
    found.work, found.known = work, known
    return found
