"""The run file when a run begins, and when it is resumed."""

from datetime import UTC, datetime

from flashbench import __version__
from flashbench.measure.plan import Plan
from flashbench.measure.protocol import Ready
from flashbench.measure.retries import UNFINISHED
from flashbench.runfile import Candidate, RunFile, Settings
from flashbench.shard import cases_of_shard


def new_run(plan: Plan, ready: Ready, candidates: list[Candidate]) -> RunFile:
    """The file of a run that begins, on the machine of the first worker."""
    cases = plan.cases(ready.device)
    cases_of_shard(cases, plan.shard)  # refuses more shards than cases
    return RunFile(
        flashbench=__version__,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        command=list(plan.command),
        environment=ready.environment,
        settings=Settings(
            launches=plan.launches,
            samples=plan.samples,
            seed=plan.seed,
            min_sample_seconds=ready.min_sample_seconds,
            timeout_seconds=plan.timeout_seconds,
            budget_seconds=plan.budget_seconds,
            shard=plan.shard,
            metrics=None if plan.metrics is None else list(plan.metrics),
            processes="paired" if plan.processes == "paired" else "shared",
        ),
        candidates=candidates,
        cases=cases,
        hourly_rate=plan.hourly_rate,
        pair=plan.pair,
    )


def forget_unfinished(run: RunFile, plan: Plan) -> None:
    """Take out of a resumed file what is to be measured now, and let it say the new plan."""
    run.settings.launches = plan.launches
    run.settings.timeout_seconds = plan.timeout_seconds
    run.settings.budget_seconds = plan.budget_seconds
    run.hourly_rate = plan.hourly_rate
    for launch in run.launches:
        # Who was measured beside one that was put off is measured again beside it: a ratio
        # over two processes, or two machines, would be none.
        torn = {result.case for result in launch.results if result.status in UNFINISHED}
        kept = [
            result
            for result in launch.results
            if result.status not in UNFINISHED
            and not (result.status == "ok" and result.case in torn)
        ]
        launch.complete = launch.complete and len(kept) == len(launch.results)
        launch.results = kept
