"""Launches of two builds side by side, one at a time on demand: the evidence of a speed bisection.
Each commit has a run file, which `flashbench show` and `compare` read."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from flashbench import locks, runfile
from flashbench.case import Case
from flashbench.comparison import Comparison
from flashbench.cost.spent import Spent
from flashbench.errors import (
    BudgetSpentError,
    FlashbenchError,
    InvalidInputError,
    NotMeasuredError,
    UnprovenError,
)
from flashbench.files import remove_tree
from flashbench.measuring.plan import Plan
from flashbench.measuring.progress import Progress, Silent
from flashbench.measuring.saving import NotSavedError
from flashbench.outcome import Outcome
from flashbench.report import Report, report_pair
from flashbench.revisions import Built
from flashbench.revisions.built import NEW, OLD, plan_of_builds
from flashbench.run_plan import CutShortError, RunEnd, measure
from flashbench.runfile import Pair, RunFile
from flashbench.until_decided import measure_pair
from flashbench.verdict import DECIDED

# Certainly slower, though perhaps by less than the tolerance: there is a commit to find.
SLOWER = frozenset((Outcome.SLOWER, Outcome.PERHAPS_SLOWER))
ENOUGH = DECIDED | SLOWER  # to know whether to search
_TRIES = 2  # failed launches after which a commit is given up


class SpentError(Exception):
    """The budget was spent."""


@contextlib.contextmanager
def own(directory: Path, *, force: bool = False) -> Iterator[None]:
    """Create the directory of one bisection's run files and lock out other processes. Existing
    files are reused, or removed with `force`.

    Raises NotMeasuredError if another process holds it, or it cannot be created.
    """
    with contextlib.ExitStack() as held:
        try:
            lock = directory.with_name(f"{directory.name}.lock")
            held.enter_context(locks.exclusive(lock, wait=False))
            if force:
                remove_tree(directory)
            directory.mkdir(exist_ok=True)
        except locks.BusyError as holder:
            raise NotMeasuredError(
                f"{holder} is doing the same bisection; wait for it, or end it and run this again"
            ) from None
        except OSError as error:
            raise NotMeasuredError(
                f"{directory}: cannot be created: {error.strerror}; free some space, or set "
                "FLASHBENCH_CACHE"
            ) from None
        yield


@dataclass
class LaunchesOnDemand:
    """plan: for every measurement, without candidates; good: the build that all are compared with;
    directory: for the run files; rule: of each comparison; budget: total device seconds, None
    without a limit."""

    plan: Plan
    good: Built
    directory: Path
    rule: Pair
    budget: float | None = None
    pays_builds: bool = False  # the budget is money
    build_seconds: float = 0.0  # by the clock, of this invocation
    seconds: float = 0.0  # device seconds of this invocation
    lost: float = 0.0  # of these, without a result
    saved: float = 0.0  # that the fixed plan for the ends would have taken in addition
    reasons: dict[str, str] = field(default_factory=dict)  # why a commit has no launches

    def ends(self, bad: Built, launches: int, progress: Progress) -> Report:
        """Compare good and bad on all cases until each is decided.

        Raises SpentError, CutShortError, and what `run_plan.measure` raises.
        """
        path = self._path(bad)
        resumed = self._known(bad)
        plan = self._plan(bad, (), launches)
        done = Spent.of(resumed) if resumed else Spent()
        end = measure_pair(plan, path, progress, resumed, enough=ENOUGH, sought=True)
        self.saved = end.run.costs.saved_seconds if end.run else 0.0
        self._finish(end, done)
        return report_pair(runfile.read(path))

    def known(self, commit: Built, case: Case) -> list[float]:
        """The results of earlier launches of a commit; none if its file holds other builds."""
        run = self._known(commit)
        return self._ratios(run, case) if run is not None and case in run.cases else []

    def launch(self, commit: Built, case: Case) -> float | None:
        """log(time of the commit / time of good) in one more launch; None if it yielded none, with
        the reason in `reasons`. Raises as `ends`."""
        for _ in range(_TRIES):
            resumed = self._known(commit)
            before = self._ratios(resumed, case) if resumed is not None else []
            taken = sum(launch.complete for launch in resumed.launches) if resumed else 0
            plan = self._plan(commit, (case,), taken + 1)
            done = Spent.of(resumed) if resumed is not None else Spent()
            try:
                self._finish(measure(plan, self._path(commit), Silent(), resumed), done)
            except BudgetSpentError:
                self._count(self._known(commit), done)
                raise SpentError from None
            except (UnprovenError, NotSavedError):
                raise  # not this commit's fault: the next one would do no better
            except NotMeasuredError as error:
                self.reasons[commit.revision.commit] = str(error)
                return None
            run = runfile.read(self._path(commit))
            after = self._ratios(run, case)
            if len(after) > len(before):
                return after[-1]
            failure = self._comparison(run, case).failure
            self.reasons[commit.revision.commit] = (
                f"{failure.status}: {failure.reason}" if failure else "a launch failed"
            )
            if failure is not None and failure.status in ("wrong", "unsupported"):
                return None
        return None

    def _plan(self, commit: Built, chosen: tuple[Case, ...], launches: int) -> Plan:
        spent = self.seconds + (self.build_seconds if self.pays_builds else 0.0)
        left = None if self.budget is None else self.budget - spent
        if left is not None and left <= 0:
            raise SpentError
        builds = plan_of_builds({OLD: self.good, NEW: commit})
        return replace(
            self.plan,
            **builds | {"build_seconds": 0.0},  # the search counts them
            launches=launches,
            budget_seconds=left,
            metrics=[self.rule.metric] if self.rule.metric else [],
            chosen=chosen or self.plan.chosen,
            pair=self.rule,
        )

    def _finish(self, end: RunEnd, before: Spent) -> None:
        self._count(end.run, before)
        if end.interrupted:
            raise CutShortError
        if end.over_budget:
            raise SpentError
        if end.run is None:
            raise NotMeasuredError("nothing was measured")

    def _count(self, run: RunFile | None, before: Spent) -> None:
        """Add what a run spent more than `before`."""
        if run is not None:
            after = Spent.of(run)
            self.seconds += after.device - before.device
            self.lost += after.lost - before.lost

    def _path(self, commit: Built) -> Path:
        return self.directory / f"{commit.revision.commit}.json"

    def _known(self, commit: Built) -> RunFile | None:
        """The run file of a commit, if it holds the builds being compared."""
        path = self._path(commit)
        if not path.exists():
            return None
        with contextlib.suppress(FlashbenchError):
            run = runfile.read(path)
            mine = {NEW: commit.identity.library_hash, OLD: self.good.identity.library_hash}
            there = {c.name: c.build.library_hash for c in run.candidates if c.name in mine}
            processes = self.plan.processes in ("auto", run.settings.processes)
            workers = self.plan.workers in ("auto", run.settings.workers)
            if there == mine and run.pair is not None and processes and workers:
                return run
        other = 1  # of other builds, or damaged: not used, but not lost
        while (aside := path.with_suffix(f".{other}.json")).exists():
            other += 1
        path.rename(aside)
        return None

    def _comparison(self, run: RunFile, case: Case) -> Comparison:
        return next(c for c in report_pair(run).comparisons if c.case.id == case.id)

    def _ratios(self, run: RunFile, case: Case) -> list[float]:
        if not run.launches:
            return []
        sides = self._comparison(run, case).pairing.sides
        return [-float(value) for value in sides[0]] if sides else []


def slowest(report: Report) -> int | None:
    """The comparison that is certainly slower by the most; None if none is."""
    slower = [place for place, v in enumerate(report.verdicts) if v.outcome in SLOWER]
    if not slower:
        return None

    def certain(place: int) -> float:
        shift = report.comparisons[place].shift
        if shift is None:
            raise InvalidInputError("a verdict without an interval")
        return shift.high

    return min(slower, key=certain)
