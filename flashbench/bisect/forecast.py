"""Forecast a search for a commit: its builds, and for a slowdown its launches."""

import math

from flashbench.bisect.question import Range
from flashbench.bisect.simulated_search import launches_of_search
from flashbench.cost.estimate import Seconds
from flashbench.cost.forecast import Forecast, Terms, source
from flashbench.measuring.plan import Plan
from flashbench.revisions.forecast import add_builds, paired_work
from flashbench.revisions.preparer import default_jobs


def forecast_search(
    asked: Range,
    plan: Plan,
    device: str,
    terms: Terms,
    *,
    speed: bool,
    rule: tuple[float, float],
    quick: bool,
    jobs: int | None,
) -> Forecast:
    """Forecast a search: of a slowdown by simulation, else the commits that halving needs,
    and some more. plan: of both ends, with the most launches; rule: tolerance and confidence;
    jobs: None for the default."""
    known, ends = terms.known(device), paired_work(asked.project, plan, device, 2)
    found = terms.forecast("bisect", ends, known)
    suspects = sum(asked.changes()) if speed else asked.builds()
    size, change = asked.graph.size, "changes" if suspects == 1 else "change"
    found.what = (
        f"{size} commit{'s' * (size != 1)}, {suspects} that {change} what is built or imported"
    )
    halving = math.ceil(math.log2(suspects + 1))
    most = max(0, (halving + 2 if quick else suspects) - 2)
    between = Seconds(0, min(halving + 2, most), most)  # none, if nothing is broken
    launches = None
    if speed and suspects:
        launches = launches_of_search(suspects, ends, known, *rule)
        between = launches.commits
    add_builds(
        found,
        asked.project,
        [asked.good, asked.bad],
        jobs or (1 if speed else default_jobs()),
        searched=[commit.revision for commit in asked.commits[:-1]],
        looks=between,
    )
    if launches is not None:
        found.parts += launches.parts
        found.sources += [source(known, ends), *launches.sources]
    return found
