"""`flashbench run`: from a plan to a run file, whatever happens on the way.

The parent imports neither torch nor a candidate: whatever those do, it lives, and what was
measured is in the file.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from flashbench.candidates import parse_candidates
from flashbench.errors import InvalidInputError
from flashbench.measure.bench import Bench, Settled
from flashbench.measure.plan import Plan
from flashbench.measure.progress import Progress
from flashbench.runfile import Pair, RunFile
from flashbench.shard import cases_of_shard

__all__ = ["Outcome", "Plan", "measure", "plan_to_resume"]


@dataclass
class Outcome:
    """What came of a run; run is None if it ended before anything was known of the machine."""

    run: RunFile | None
    interrupted: bool = False
    over_budget: bool = False
    failed: bool = False  # a part of it ended before its time


def plan_to_resume(run: RunFile, path: Path) -> Plan:
    """The plan that goes on with a run file.

    InvalidInputError if it holds no case, or a candidate that no command line could have named.
    """
    if not run.cases:
        raise InvalidInputError(f"{path}: holds no case to go on with")
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
        launches=settings.launches,
        samples=settings.samples,
        seed=settings.seed,
        threads=run.environment.threads,
        min_sample_seconds=settings.min_sample_seconds,
        timeout_seconds=settings.timeout_seconds,
        budget_seconds=settings.budget_seconds,
        hourly_rate=run.hourly_rate,
        shard=settings.shard,
        pair=run.pair,
        metrics=_metrics(run.pair),
    )


def _metrics(pair: Pair | None) -> list[str] | None:
    """What is timed again: of two builds, the one metric that they are judged by."""
    if pair is None:
        return None
    return [pair.metric] if pair.metric else []


def measure(
    plan: Plan,
    path: Path,
    progress: Progress,
    resumed: RunFile | None = None,
    settled: Settled = lambda run: (),
) -> Outcome:
    """Measure the plan into the run file `path`, saving after each case.

    settled: from what was measured so far, the ids of the cases that need no more launches.

    resumed: the run to go on with; its results are kept and what it lacks is added. Raises
    NotMeasuredError if no candidate loads, and InvalidInputError if machine or builds are not
    those of `resumed`. Ctrl-C and SIGTERM end it early; everything measured is in the file.
    """
    bench = Bench(plan, path, progress, resumed, settled)
    outcome = Outcome(None)
    try:
        with sigterm_as_interrupt(), progress:
            bench.measure()
    except KeyboardInterrupt:
        outcome.interrupted = True
    finally:
        with signals_ignored():
            bench.close(interrupted=outcome.interrupted)
    outcome.run = bench.run
    outcome.over_budget = bench.over_budget
    return outcome


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """SIGTERM (a scheduler, a preempted machine) ends a run as Ctrl-C does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


@contextmanager
def signals_ignored() -> Iterator[None]:
    """While the file is saved for the last time, a second Ctrl-C waits for nothing."""
    previous = {n: signal.signal(n, signal.SIG_IGN) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
