"""`flashbench run`: measure a plan into a run file, and survive whatever goes wrong.

The parent imports neither torch nor a candidate, so no crash of theirs reaches it; everything
measured is in the file.
"""

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from flashbench import operations
from flashbench.cost.learn import learn
from flashbench.errors import InvalidInputError, NotMeasuredError, UnprovenError
from flashbench.measuring.forks import Forks, may_be_gpu
from flashbench.measuring.plan import Plan
from flashbench.measuring.progress import Progress
from flashbench.measuring.remaining import Settled
from flashbench.measuring.scheduler import Scheduler
from flashbench.runfile import RunFile, Workers

_ENDING = (signal.SIGTERM, signal.SIGHUP)


class CutShortError(Exception):
    """Ctrl-C was pressed; the measurements are in the run file."""


@dataclass
class RunEnd:
    """The outcome of a run; run is None if it ended before the machine was known."""

    run: RunFile | None
    interrupted: bool = False
    over_budget: bool = False
    failed: bool = False  # a part of it ended early

    def measured(self) -> RunFile:
        """The run; NotMeasuredError if it has no launch."""
        if self.run is None or not self.run.launches:
            raise NotMeasuredError("interrupted before anything was measured")
        return self.run


def measure(
    plan: Plan,
    path: Path,
    progress: Progress,
    resumed: RunFile | None = None,
    settled: Settled = lambda run: (),
    *,
    check: bool = False,
) -> RunEnd:
    """Measure the plan into the run file `path`, saving after each case.

    settled: from the measurements so far, the ids of cases that need no more launches.

    check: compare machine and builds with those of `resumed` even if it is complete.

    resumed: the run to resume; its results are kept and the missing ones added. Raises
    NotMeasuredError if no candidate loads, and InvalidInputError if machine or builds differ from
    `resumed`. Ctrl-C and SIGTERM end it early; everything measured is in the file.

    Raises UnprovenError if revisions that share a process are not proven to run their own code.
    """
    if plan.processes == "auto":
        plan = replace(plan, processes=resumed.settings.processes if resumed else "shared")
    elif resumed is not None and plan.processes != resumed.settings.processes:
        raise InvalidInputError(
            f"{path}: was measured with --processes {resumed.settings.processes}; drop the flag, "
            "or measure into a new file"
        )
    if plan.workers == "auto":
        usual: Workers = "forked" if Forks.possible else "fresh"
        plan = replace(plan, workers=resumed.settings.workers if resumed else usual)
    plan = _warmed_up(plan, progress)
    before = [launch.index for launch in resumed.launches] if resumed is not None else []
    scheduler = Scheduler(plan, path, progress, resumed, settled, check=check)
    end = RunEnd(None)
    with progress:
        try:
            _run(scheduler, end)
        except UnprovenError as error:
            raise UnprovenError(
                f"no proof that revisions in one process run their own code: {error}; measure "
                "into a new file with --processes paired"
            ) from None
    end.run = scheduler.run
    if end.run is not None:
        learn(end.run, before)
        scheduler.saving.end(end.run)
    end.over_budget = scheduler.over_budget
    return end


def _warmed_up(plan: Plan, progress: Progress) -> Plan:
    """Call built revisions once, so that they compile; adds the seconds to the builds."""
    if not plan.import_roots:
        return plan
    from flashbench.revisions.warm_up import LaunchCalls, compiling, warm_up

    specs = {one.name: one.spec for one in plan.candidates}
    places = {name: Path(place) for name, place in plan.import_roots.items()}
    named = {place: specs[name] for name, place in places.items() if name in specs}
    if not (found := compiling(named)):
        return plan
    cases = plan.cases("cuda" if may_be_gpu(plan.device) else "cpu")
    root = operations.named(plan.operation).import_root
    calls = LaunchCalls([case.id for case in cases], plan.threads, plan.operation, root)
    return replace(plan, build_seconds=plan.build_seconds + warm_up(found, calls, progress.note))


def _run(scheduler: Scheduler, end: RunEnd) -> None:
    try:
        with signals_as_interrupt():
            scheduler.measure()
    except KeyboardInterrupt:
        end.interrupted = True
    except UnprovenError:
        scheduler.discard()
        raise
    finally:
        with signals_ignored():
            scheduler.close(interrupted=end.interrupted)


@contextmanager
def signals_as_interrupt() -> Iterator[None]:
    """SIGTERM (a scheduler, a preempted machine) and SIGHUP (a closed terminal) end a run as Ctrl-C
    does; what `nohup` ignores stays ignored."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    with _handled([n for n in _ENDING if signal.getsignal(n) is not signal.SIG_IGN], interrupt):
        yield


@contextmanager
def signals_ignored() -> Iterator[None]:
    """Ignore a second Ctrl-C while the file is saved for the last time."""
    with _handled([signal.SIGINT, *_ENDING], signal.SIG_IGN):
        yield


@contextmanager
def _handled(
    numbers: Sequence[signal.Signals],
    handler: Callable[[int, FrameType | None], None] | signal.Handlers,
) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # only that one may
        numbers = ()
    previous = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, before in previous.items():
            signal.signal(number, before)
