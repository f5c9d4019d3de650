"""The seconds that worker processes are alive: a launch's device time, and a run's budget."""

import time

from flashbench.cost.known import LEAST_START, experience
from flashbench.errors import BudgetSpentError
from flashbench.measuring.forks import may_be_gpu
from flashbench.measuring.plan import Plan
from flashbench.runfile import Launch, RunFile


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
        """Seconds left of the budget; None without a limit."""
        return None if self._budget is None else self._budget - self.count()

    def spent(self, run: RunFile | None) -> bool:
        """Whether the budget pays for nothing more: without a worker, not even for the shortest
        start in the run file."""
        left, starts = self.left(), [0.0]
        if run is not None and self._counted_to is None:
            starts = [one.start_seconds for one in run.launches if one.start_seconds] or starts
        return left is not None and left <= min(starts)


def require_start(plan: Plan) -> None:
    """Raise BudgetSpentError if the plan's budget is below half of the shortest start of workers
    here."""
    if plan.budget_seconds is None:
        return
    specs = [candidate.spec for candidate in plan.candidates]
    known = experience("cuda" if may_be_gpu(plan.device) else "cpu", plan.threads)
    needed = known.shortest_start(len(specs) if plan.processes == "paired" else 1, specs)
    if needed is not None and plan.budget_seconds < LEAST_START * needed:
        raise BudgetSpentError(
            f"--budget leaves {plan.budget_seconds:.3g} s, and the shortest start of workers here "
            f"took {needed:.3g} s: nothing was started; `flashbench plan` says what fits"
        )
