"""What measuring revisions takes: their builds, and their launches."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from flashbench.builds import cache_directory
from flashbench.cost import store
from flashbench.cost.estimate import Seconds, Work
from flashbench.cost.forecast import Forecast, Part, Terms, measuring_parts, source
from flashbench.cost.shares import share
from flashbench.measuring.plan import Plan
from flashbench.metric import metrics_of
from flashbench.revisions import pending_builds
from flashbench.revisions.project import Project, processes_for
from flashbench.revisions.revision import WORKTREE, Revision, resolve
from flashbench.runfile import RunFile
from flashbench.shard import cases_of_shard

# For a repository without a timed build or check.
_BUILD, _CHECK = Seconds(5, 60, 600), Seconds(1, 3, 15)
_NONE = Seconds()
_COPY = Seconds(0.05, 0.2, 2)  # if nothing is compiled


def forecast_run(
    plan: Plan,
    device: str,
    specs: Sequence[str],
    terms: Terms,
    *,
    project: Project | None,
    there: tuple[RunFile, Path] | None,
    shard: str,
    devices: Callable[[], int],
) -> Forecast:
    """Forecast the launches of a plan. specs: of its candidates, with the baselines; project: whose
    working tree is built, None for none; there: the run that it completes, and its file; shard: ""
    for all cases; devices: counts those that share the cases."""
    cases = plan.cases(device) if there is None else list(there[0].cases)
    done = 0 if there is None else sum(launch.complete for launch in there[0].launches)
    if shard:
        cases = cases_of_shard(cases, shard)
    work = Work(
        cases=cases,
        candidates=specs,
        launches=max(0, plan.launches - done),
        samples=plan.samples,
        min_sample_seconds=plan.min_sample_seconds,
        metrics=len(metrics_of(device)),
        first=done == 0,
        fresh=plan.launches if plan.workers == "fresh" else 1,
    )
    known = terms.known(device)
    found = terms.forecast("run", work, known)
    if done and there is not None:
        found.sources.append(("resumed", f"{there[1]} has {done} of {plan.launches} launches"))
    if project is not None:
        add_builds(found, project, [resolve(project.repository, WORKTREE)], 1)
    found.parts += measuring_parts(work, known)
    found.sources.append(source(known, work))
    found.work, found.known = work, known
    if (count := min(devices(), len(work.cases))) > 1:
        share(found, count, work, known)
    return found


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


def add_builds(
    found: Forecast,
    project: Project,
    revisions: Sequence[Revision],
    jobs: int,
    searched: Sequence[Revision] = (),
    looks: Seconds = _NONE,
) -> None:
    """Add the builds missing from the cache and the checks of builds to a forecast. searched:
    further revisions; a search looks at `looks` of them."""
    cache, costs = cache_directory(), store.read()
    with TemporaryDirectory() as empty:
        place = Path(empty) if found.elsewhere else cache
        missing = pending_builds.to_build(project, revisions, place)
        all_missing = missing
        if searched:
            all_missing = pending_builds.to_build(project, [*revisions, *searched], place)
    share = (all_missing - missing) / max(1, len(searched))
    count = Seconds(
        *(missing + math.ceil(n * share) for n in (looks.low, looks.likely, looks.high))
    )
    each, check = (
        pending_builds.build_seconds(project, cache, costs),
        pending_builds.check_seconds(project, costs),
    )
    for what, one, default, noun in (
        ("builds", each, _BUILD if project.build != () else _COPY, "build"),
        ("checks of builds", check, _CHECK, "import"),
    ):
        if not count.high:
            break
        if one is None:
            found.sources.append(("guess", f"no {noun} of this repository was timed here: a guess"))
        taken = one or default
        seconds = Seconds(
            count.low * taken.low / jobs,
            count.likely * taken.likely / min(jobs, max(1, count.likely)),
            count.high * taken.high,
        )
        found.parts.append(Part(what, count.likely, seconds, device=False))
    if not all_missing:
        found.parts.append(Part("builds", 0, Seconds(), device=False))
