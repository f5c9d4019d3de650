"""Turn a plan into a new run file, and a run file into the plan that resumes it."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from flashbench import __version__
from flashbench.candidates import parse_candidates
from flashbench.errors import InvalidInputError
from flashbench.measure.plan import Plan
from flashbench.measure.protocol import Ready
from flashbench.measure.retries import UNFINISHED
from flashbench.runfile import Candidate, Costs, Processes, RunFile, Settings
from flashbench.shard import cases_of_shard

# Settings that a plan and its run file have in common.
_ALIKE = ("launches", "samples", "seed", "timeout_seconds", "budget_seconds", "shard")


def new_run(plan: Plan, ready: Ready, candidates: list[Candidate]) -> RunFile:
    """The file of a new run, on the first worker's machine."""
    cases = plan.cases(ready.device)
    cases_of_shard(cases, plan.shard)  # refuses more shards than cases
    processes: Processes = "paired" if plan.processes == "paired" else "shared"
    plan = replace(plan, min_sample_seconds=ready.min_sample_seconds, processes=processes)
    return RunFile(
        flashbench=__version__,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        command=list(plan.command),
        environment=ready.environment,
        settings=msgspec.convert(plan, Settings, from_attributes=True),
        candidates=candidates,
        cases=cases,
        hourly_rate=plan.hourly_rate,
        pair=plan.pair,
        costs=msgspec.convert(plan, Costs, from_attributes=True),
    )


def plan_to_resume(run: RunFile, path: Path) -> Plan:
    """The plan that resumes a run file: the inverse of `new_run`.

    InvalidInputError if it holds no case, or a candidate that no command line could have named.
    """
    if not run.cases:
        raise InvalidInputError(f"{path}: holds no case to resume")
    settings = run.settings
    try:
        cases_of_shard(run.cases, settings.shard)
    except InvalidInputError as error:
        raise InvalidInputError(f"{path}: damaged run file: {error}") from None
    backends = [c.spec.partition(":")[2] for c in run.candidates if c.baseline and ":" in c.spec]
    return Plan(
        shapes=[],
        candidates=parse_candidates(
            [f"{c.name}={c.spec}" for c in run.candidates if not c.baseline]
        ),
        device=run.cases[0].device,
        backends=",".join(backends) or "default",
        **{name: getattr(settings, name) for name in _ALIKE},
        threads=run.environment.threads,
        min_sample_seconds=settings.min_sample_seconds,
        hourly_rate=run.hourly_rate,
        currency=run.costs.currency,
        price=run.costs.price,
        processes=settings.processes,
        pair=run.pair,
        metrics=_metrics(run),
    )


def _metrics(run: RunFile) -> list[str] | None:
    """The metrics to time again; older files only state them for two builds."""
    if run.settings.metrics is not None or run.pair is None:
        return run.settings.metrics
    return [run.pair.metric] if run.pair.metric else []


def forget_unfinished(run: RunFile, plan: Plan) -> None:
    """Remove results that will be measured again from a resumed file, and store the new plan."""
    run.settings.launches = plan.launches
    run.settings.timeout_seconds = plan.timeout_seconds
    run.settings.budget_seconds = plan.budget_seconds
    run.hourly_rate = plan.hourly_rate
    run.costs.currency, run.costs.price = plan.currency, plan.price
    run.costs.build_seconds += plan.build_seconds
    for launch in run.launches:
        # What was measured beside an unfinished candidate is measured again beside it: a ratio
        # across two processes, or two machines, would be meaningless.
        torn = {result.case for result in launch.results if result.status in UNFINISHED}
        launch.lost_seconds += sum(launch.case_seconds.pop(case, 0.0) for case in torn)
        kept = [
            result
            for result in launch.results
            if result.status not in UNFINISHED
            and not (result.status == "ok" and result.case in torn)
        ]
        launch.complete = launch.complete and len(kept) == len(launch.results)
        launch.results = kept
