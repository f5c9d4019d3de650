"""The seconds that worker processes are alive: a launch's device time, and a run's budget."""

import math
import os
import time
from dataclasses import replace

from flashbench.cost.known import LEAST_START, experience
from flashbench.cost.money import Money
from flashbench.errors import BudgetSpentError, InvalidInputError, NotMeasuredError
from flashbench.measuring.forks import may_be_gpu
from flashbench.measuring.plan import Plan
from flashbench.runfile import Launch, RunFile

_DEADLINE = "FLASHBENCH_DEADLINE"


class DeviceSeconds:
    """Seconds of this invocation, by launch.

    budget: None for no limit.
    """

    def __init__(self, budget: float | None) -> None:
        self._budget = budget
        self._total = 0.0
        self._launch: Launch | None = None
        self._counted_to: float | None = None  # None: no worker lives

    def start(self) -> None:
        """A worker starts now."""
        self._counted_to = time.monotonic()

    def stop(self) -> None:
        """The worker has ended."""
        self.count()
        self._counted_to = None

    def belong_to(self, launch: Launch) -> None:
        """Assign the seconds that no launch has yet, and all from now on, to this launch."""
        if self._launch is None:
            launch.device_seconds += self._total
        self._launch = launch
        self.count()

    @property
    def of_no_launch(self) -> float:
        """Seconds so far, while no launch has any."""
        return self.count() if self._launch is None else 0.0

    def count(self) -> float:
        """The seconds so far; new ones are assigned to the current launch."""
        if self._counted_to is not None:
            now = time.monotonic()
            new, self._counted_to = now - self._counted_to, now
            self._total += new
            if self._launch is not None:
                self._launch.device_seconds += new
        return self._total

    def left(self) -> float | None:
        """Seconds left of the budget or until the deadline; None without a limit."""
        return until_deadline(None if self._budget is None else self._budget - self.count())

    def spent(self, run: RunFile | None) -> bool:
        """Whether the budget is used up: without a worker, if it does not cover even the shortest
        start in the run file."""
        left, starts = self.left(), [0.0]
        if run is not None and self._counted_to is None:
            starts = [one.start_seconds for one in run.launches if one.start_seconds] or starts
        return left is not None and left <= min(starts)


def until_deadline(left: float | None) -> float | None:
    """The seconds left of a budget, or until the deadline of the environment, whichever ends first;
    None without either. InvalidInputError if the deadline is not a time."""
    if not (text := os.environ.get(_DEADLINE, "")):
        return left
    try:
        deadline = float(text)
    except ValueError:
        deadline = math.nan
    if not math.isfinite(deadline):
        raise InvalidInputError(f"{_DEADLINE}: {text!r} is not a time; write seconds as `date +%s`")
    return min(math.inf if left is None else left, deadline - time.time())


def limit_name(budget: object) -> str:
    """What ended measuring: `--budget` if it was given (not None) and the deadline of the
    environment has not passed, otherwise the variable of the deadline."""
    left = until_deadline(None)
    return "--budget" if budget is not None and (left is None or left > 0) else _DEADLINE


def require_start(plan: Plan) -> None:
    """Raise BudgetSpentError if the plan's budget, or the time until the deadline, is below half of
    the shortest start of workers here."""
    left = until_deadline(plan.budget_seconds)
    if left is None:
        return
    specs = [candidate.spec for candidate in plan.candidates]
    known = experience("cuda" if may_be_gpu(plan.device) else "cpu", plan.threads)
    needed = known.shortest_start(len(specs) if plan.processes == "paired" else 1, specs)
    if needed is not None and left < LEAST_START * needed:
        limit = "--budget" if left == plan.budget_seconds else _DEADLINE
        raise BudgetSpentError(
            f"{limit} leaves {max(0.0, left):.3g} s, and the shortest start of workers here "
            f"took {needed:.3g} s: nothing was started; `flashbench plan` says what fits"
        )


def after_builds(plan: Plan, budget: float | Money | None) -> Plan:
    """Deduct the plan's builds and their checks from a budget in money. Raises NotMeasuredError if
    it is spent."""
    if not isinstance(budget, Money) or plan.budget_seconds is None or not plan.build_seconds:
        return plan
    left = plan.budget_seconds - plan.build_seconds
    if left <= 0:
        raise NotMeasuredError(
            f"--budget {budget} was spent on builds and their checks, which took "
            f"{plan.build_seconds:.1f} s; they are kept; the same command resumes"
        )
    return replace(plan, budget_seconds=left)
