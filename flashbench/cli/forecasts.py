"""Forecasts of measuring commands, from their options."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashbench.candidates import OURS, baselines, parse_candidates
from flashbench.cli.measuring import cases_to_bisect, plan_options, said_tolerance, tell
from flashbench.cost.forecast import Forecast, Terms
from flashbench.cost.money import Money
from flashbench.errors import InvalidInputError
from flashbench.machine import device_of
from flashbench.measuring.plan import Plan
from flashbench.measuring.requested import rate_of, refuse_no_candidate

if TYPE_CHECKING:
    from flashbench.bisect.question import Range


def run(context: click.Context, options: dict[str, Any]) -> Forecast:
    """Forecast `flashbench run`, or the rest of a run file."""
    from flashbench.cli.fleet import spread
    from flashbench.cli.run import plan_of_resumed, refuse_with_resume
    from flashbench.fleet.gpus import count_devices
    from flashbench.revisions import find
    from flashbench.revisions.forecast import forecast_run
    from flashbench.run_reader import read_for_analysis

    spread(context)  # refuses what `run` would
    refuse_no_candidate(options)
    project = find(Path.cwd())
    file = options["resume"] or options["output"]
    there = read_for_analysis(file) if file and (options["resume"] or file.is_file()) else None
    if options["resume"]:
        assert there is not None
        refuse_with_resume(context)
        plan = plan_of_resumed(context, options, there)
        device, specs = plan.device, [one.spec for one in there.candidates]
        if plan.hourly_rate is not None:
            options = options | {"hourly_rate": Money(plan.hourly_rate, plan.currency)}
    else:
        texts = list(options["candidates"])
        plan = Plan(**plan_options(options), candidates=parse_candidates(texts or [OURS]))
        device, specs = device_of(options["device"]), [one.spec for one in parse_candidates(texts)]
        if not texts and not options["baseline_only"]:
            specs = [project.callable if project is not None else OURS]
        specs[:0] = [one.spec for one in baselines(device, options["backends"], plan.operation)]
    builds_tree = project is not None and project.callable in specs and not options["candidates"]
    return forecast_run(
        plan,
        device,
        specs,
        _terms(plan, options),
        project=project if builds_tree else None,
        there=None if there is None else (there, file),
        shard=options["shard"],
        devices=partial(
            count_devices,
            options["gpus"] or "",
            options["slurm"],
            elsewhere=bool(options.get("on")),
        ),
    )


def compare(context: click.Context, options: dict[str, Any]) -> Forecast:
    """Forecast a comparison of two revisions; comparing files needs no device."""
    from flashbench.comparing.files import is_file
    from flashbench.comparing.forecast import forecast_comparison
    from flashbench.comparing.revisions import RevisionRequest
    from flashbench.revisions import WORKTREE

    a, b = options["a"], options["b"] or WORKTREE
    if is_file(a) or is_file(b):
        raise InvalidInputError(
            f"{a}: to compare files measures nothing, so there is nothing to plan; name revisions"
        )
    metrics = [options["metric"]] if options["metric"] else []
    plan = Plan(**plan_options(options), candidates=[], metrics=metrics)
    said = options["tolerance"] if options.get("on") else said_tolerance(context)
    request = RevisionRequest(a, b, plan, tolerance=said, confidence=options["confidence"])
    return forecast_comparison(request, _terms(plan, options), tell)


def backfill(context: click.Context, options: dict[str, Any]) -> Forecast:
    """Forecast `flashbench backfill`, with all commits in the same launches."""
    from flashbench.history.forecast import forecast_backfill
    from flashbench.revisions import read
    from flashbench.revisions.commits import commits_named
    from flashbench.revisions.preparer import default_jobs

    project = read(Path.cwd())
    chosen = commits_named(project.repository, options["revisions"], options["listed"])
    plan = Plan(**plan_options(options), candidates=[], metrics=list(options["metrics"]))
    jobs = options["jobs"] or default_jobs()
    return forecast_backfill(project, chosen, plan, jobs, _terms(plan, options))


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
    from flashbench.bisect.forecast import forecast_search
    from flashbench.operations import parse_case

    cases = [parse_case(text) for text in options["cases"]]
    device = cases[0].device if cases else device_of(options["device"])
    if cases:
        options = options | {"operation": cases[0].operation}
    plan = Plan(**plan_options(options), candidates=[], chosen=cases)
    return forecast_search(
        asked,
        plan,
        device,
        _terms(plan, options),
        speed=options["purpose"] == "speed",
        rule=(options["tolerance"], options["confidence"]),
        quick=options["quick"],
        jobs=options["jobs"],
    )


def _terms(plan: Plan, options: dict[str, Any]) -> Terms:
    """What the options say of the price; `on` names another machine."""
    return Terms(
        rate_of(options),
        options["budget"],
        plan.budget_seconds,
        plan.threads,
        options.get("on") or "",
    )
