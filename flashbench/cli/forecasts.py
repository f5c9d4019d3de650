"""Forecasts of measuring commands, from their options."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashbench.candidates import OURS, baselines, parse_candidates
from flashbench.cli.measuring import cases_to_bisect, plan_options, said_tolerance, tell
from flashbench.comparing.tolerance import chosen_tolerance
from flashbench.cost import store
from flashbench.cost.estimate import Work
from flashbench.cost.forecast import Forecast, measuring_parts, parts_until_decided, source
from flashbench.cost.known import Experience, experience
from flashbench.cost.money import Money
from flashbench.cost.shares import share
from flashbench.errors import InvalidInputError, NotMeasuredError
from flashbench.machine import device_of, name_of
from flashbench.measuring.plan import Plan
from flashbench.measuring.requested import rate_of
from flashbench.metric import metrics_of
from flashbench.revisions.forecast import add_builds, paired_work
from flashbench.shard import cases_of_shard

if TYPE_CHECKING:
    from flashbench.bisect.question import Range


def run(context: click.Context, options: dict[str, Any]) -> Forecast:
    """Forecast `flashbench run`, or the rest of a run file."""
    from flashbench.cli.fleet import spread
    from flashbench.cli.run import plan_of_resumed, refuse_with_resume
    from flashbench.revisions import WORKTREE, find, resolve
    from flashbench.run_reader import read_for_analysis

    spread(context)  # refuses what `run` would
    if options["baseline_only"] and options["candidates"]:
        raise InvalidInputError("--baseline-only measures no candidate: drop --candidate, or it")
    project = find(Path.cwd())
    file = options["resume"] or options["output"]
    there = read_for_analysis(file) if file and (options["resume"] or file.is_file()) else None
    if options["resume"]:
        assert there is not None
        refuse_with_resume(context)
        plan = plan_of_resumed(context, options, there)
        device, specs = plan.device, [one.spec for one in there.candidates]
        options = options | {"threads": plan.threads}
        if plan.hourly_rate is not None:
            options["hourly_rate"] = Money(plan.hourly_rate, plan.currency)
    else:
        texts = list(options["candidates"])
        plan = Plan(**plan_options(options), candidates=parse_candidates(texts or [OURS]))
        device, specs = device_of(options["device"]), [one.spec for one in parse_candidates(texts)]
        if not texts and not options["baseline_only"]:
            specs = [project.callable if project is not None else OURS]
        specs[:0] = [one.spec for one in baselines(device, options["backends"], plan.operation)]
    named = bool(options["candidates"])
    builds_tree = project is not None and not named and project.callable in specs
    cases = plan.cases(device) if there is None else list(there.cases)
    done = 0 if there is None else sum(launch.complete for launch in there.launches)
    if options["shard"]:
        cases = cases_of_shard(cases, options["shard"])
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
    known = known_here(device, options)
    found = _forecast("run", work, known, plan, options)
    if done:
        found.sources.append(("resumed", f"{file} has {done} of {plan.launches} launches"))
    if builds_tree and project is not None:
        add_builds(found, project, [resolve(project.repository, WORKTREE)], 1)
    found.parts += measuring_parts(work, known)
    found.sources.append(source(known, work))
    found.work, found.known = work, known
    if (count := min(_devices(options), len(work.cases))) > 1:
        share(found, count, work, known)
    return found


def compare(context: click.Context, options: dict[str, Any]) -> Forecast:
    """Forecast a comparison of two revisions; comparing files needs no device."""
    from flashbench.comparing.files import is_file
    from flashbench.revisions import WORKTREE, read, resolve

    a, b = options["a"], options["b"] or WORKTREE
    if is_file(a) or is_file(b):
        raise InvalidInputError(
            f"{a}: to compare files measures nothing, so there is nothing to plan; name revisions"
        )
    project = read(Path.cwd())
    revisions = [resolve(project.repository, text) for text in (a, b)]
    device = device_of(options["device"])
    metrics = [options["metric"]] if options["metric"] else []
    plan = Plan(**plan_options(options), candidates=[], metrics=metrics)
    work = paired_work(project, plan, device, 2)
    known = known_here(device, options)
    found = _forecast("compare", work, known, plan, options)
    add_builds(found, project, revisions, 1)
    said = options["tolerance"] if options.get("on") else said_tolerance(context)
    tolerance = chosen_tolerance(said, plan, project, None, tell)
    parts, launches = parts_until_decided(work, known, tolerance, options["confidence"])
    found.parts += parts
    found.sources += [source(known, work), launches]
    found.work, found.known = work, known
    return found


def backfill(context: click.Context, options: dict[str, Any]) -> Forecast:
    """Forecast `flashbench backfill`, with all commits in the same launches."""
    from flashbench.revisions import read
    from flashbench.revisions.commits import commits_named
    from flashbench.revisions.preparer import default_jobs

    project = read(Path.cwd())
    chosen = commits_named(project.repository, options["revisions"], options["listed"])
    device = device_of(options["device"])
    plan = Plan(**plan_options(options), candidates=[])
    work = paired_work(project, plan, device, len(chosen), len(options["metrics"]) or 1)
    known = known_here(device, options)
    found = _forecast("backfill", work, known, plan, options)
    add_builds(found, project, chosen, options["jobs"] or default_jobs())
    found.parts += measuring_parts(work, known)
    found.sources.append(source(known, work))
    found.work, found.known = work, known
    return found


def bisect(context: click.Context, options: dict[str, Any]) -> Forecast:
    """Forecast `flashbench bisect` over the range between --good and --bad."""
    from flashbench.bisect.question import range_of
    from flashbench.revisions import read

    cases_to_bisect(context)  # refuses what `bisect` would
    ends = options["good"], options["bad"]
    return of_bisection(
        range_of(read(Path.cwd()), *ends, first_parent=options["first_parent"]), options
    )


def of_bisection(asked: "Range", options: dict[str, Any]) -> Forecast:
    """Forecast a search: of a slowdown by simulation, else the commits that halving needs, and some
    more."""
    from flashbench.bisect.forecast import add_search
    from flashbench.operations import parse_case

    project = asked.project
    cases = [parse_case(text) for text in options["cases"]]
    device = cases[0].device if cases else device_of(options["device"])
    if cases:
        options = options | {"operation": cases[0].operation}
    plan = Plan(**plan_options(options), candidates=[], chosen=cases)
    known = known_here(device, options)
    ends = paired_work(project, plan, device, 2)
    found = _forecast("bisect", ends, known, plan, options)
    add_search(
        found,
        asked,
        ends,
        known,
        speed=options["purpose"] == "speed",
        rule=(options["tolerance"], options["confidence"]),
        quick=options["quick"],
        jobs=options["jobs"],
    )
    return found


def known_here(device: str, options: dict[str, Any]) -> Experience:
    """Experience with this machine, or with the one named by `on`, a part of its device's name."""
    if not options.get("on"):
        return experience(device, options["threads"])
    return Experience(device, store.read().like(device, options["on"]))


def _forecast(
    command: str, work: Work, known: Experience, plan: Plan, options: dict[str, Any]
) -> Forecast:
    sizes = [
        (len(work.cases), "case"),
        (len(work.candidates), "candidate"),
        (work.launches, "launch"),
    ]
    words = [
        f"{count} {noun}{('es' if noun == 'launch' else 's') * (count != 1)}"
        for count, noun in sizes
    ]
    budget = options["budget"]
    limit = str(budget) if isinstance(budget, Money) else f"{budget:g}s" if budget else ""
    threads = known.machine.threads if known.machine and known.device == "cpu" else 0
    return Forecast(
        command,
        " x ".join(words),
        (known.machine.name if known.machine else options.get("on") or name_of(known.device))
        + (f", {threads} threads" if threads else ""),
        elsewhere=bool(options.get("on")),
        rate=rate_of(options),
        budget=limit,
        budget_seconds=plan.budget_seconds,
        builds_count=isinstance(budget, Money),
    )


def _devices(options: dict[str, Any]) -> int:
    """How many devices share the cases: of the GPUs of this machine, or as many as --gpus names on
    a machine that is not this one."""
    from flashbench.fleet.gpus import choose, places_of, visible_gpus

    text = options["gpus"] or ""
    if not text:
        return options["slurm"] or 1
    try:
        visible = [] if options.get("on") else visible_gpus()
    except NotMeasuredError:
        visible = []
    if visible:
        return len(choose(text, visible))
    if text == "all":
        raise InvalidInputError(
            "--gpus all: the GPUs of another machine are not known here; write how many"
        )
    return len(places_of(text))
