"""Turn a plan into a new run file, and a run file into the plan that resumes it."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flashbench import __version__, machine
from flashbench.baseline_names import backend_of
from flashbench.candidates import baselines, parse_candidates
from flashbench.errors import InvalidInputError
from flashbench.measuring.forks import may_be_gpu
from flashbench.measuring.identity import difference
from flashbench.measuring.plan import Plan
from flashbench.measuring.protocol import Ready
from flashbench.measuring.retries import UNFINISHED
from flashbench.runfile import (
    Candidate,
    Costs,
    DeviceState,
    Environment,
    RunFile,
    RunSettings,
    version_for,
)
from flashbench.sample_counts import MIN_SAMPLE_SECONDS
from flashbench.shard import cases_of_shard

# Settings that a plan and its run file have in common.
_ALIKE = ("launches", "samples", "seed", "timeout_seconds", "budget_seconds", "shard")


def unstarted_run(plan: Plan) -> RunFile:
    """The file of a run whose first worker did not start: only the machine's name is known."""
    device = "cuda" if may_be_gpu(plan.device) else "cpu"
    candidates = [*baselines(device, plan.backends, plan.operation), *plan.candidates]
    ready = Ready(
        device=device,
        environment=Environment(
            threads=plan.threads or 0,
            cpu=machine.name_of("cpu"),
            gpu=machine.name_of("cuda") if device == "cuda" else "",
        ),
        candidates=candidates,
        failures={},
        min_sample_seconds=plan.min_sample_seconds or MIN_SAMPLE_SECONDS[device],
        state=DeviceState(),
    )
    return new_run(plan, ready, candidates)


def new_run(plan: Plan, ready: Ready, candidates: list[Candidate]) -> RunFile:
    """The file of a new run, on the first worker's machine."""
    cases = plan.cases(ready.device)
    cases_of_shard(cases, plan.shard)  # refuses more shards than cases
    stored = machine.ceilings_of(ready.environment, ready.device)
    return RunFile(
        version=version_for(cases),
        flashbench=__version__,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        command=list(plan.command),
        environment=ready.environment,
        settings=RunSettings(
            **_alike(plan),
            min_sample_seconds=ready.min_sample_seconds,
            metrics=None if plan.metrics is None else list(plan.metrics),
            processes="paired" if plan.processes == "paired" else "shared",
            workers="forked" if plan.workers == "forked" else "fresh",
        ),
        candidates=candidates,
        cases=cases,
        hourly_rate=plan.hourly_rate,
        pair=plan.pair,
        costs=Costs(currency=plan.currency, price=plan.price, build_seconds=plan.build_seconds),
        ceilings=[] if stored is None else [stored],
    )


def started_run(
    run: RunFile | None, plan: Plan, ready: Ready, candidates: list[Candidate], path: Path
) -> RunFile:
    """The run that a worker goes on with: a new one if there is none.

    InvalidInputError if it was begun on another machine or with other builds.
    """
    if run is None:
        return new_run(plan, ready, candidates)
    if not run.launches:  # of no machine yet
        run.environment, run.candidates = ready.environment, candidates
    if changed := difference(run, ready.environment, candidates):
        raise InvalidInputError(f"{path}: cannot be resumed, {changed}; measure into a new file")
    return run


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
    backends = [backend_of(c.spec) for c in run.candidates if c.baseline and backend_of(c.spec)]
    return Plan(
        shapes=[],
        candidates=parse_candidates(
            [f"{c.name}={c.spec}" for c in run.candidates if not c.baseline]
        ),
        device=run.cases[0].device,
        backends=",".join(backends) or "default",
        **_alike(settings),
        threads=run.environment.threads or None,
        min_sample_seconds=settings.min_sample_seconds,
        hourly_rate=run.hourly_rate,
        currency=run.costs.currency,
        price=run.costs.price,
        processes=settings.processes,
        workers=settings.workers,
        pair=run.pair,
        metrics=_metrics(run),
        operation=run.operation,
    )


def _alike(stated: Plan | RunSettings) -> dict[str, Any]:
    return {name: getattr(stated, name) for name in _ALIKE}


def _metrics(run: RunFile) -> list[str] | None:
    """The metrics to time again; older files only state them for two builds."""
    if run.settings.metrics is not None or run.pair is None:
        return run.settings.metrics
    return [run.pair.metric] if run.pair.metric else []


def forget_unfinished(run: RunFile, plan: Plan) -> None:
    """Remove results that will be measured again from a resumed file, and store the new plan."""
    run.settings.plan_launches(plan.launches, sum(launch.complete for launch in run.launches))
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
