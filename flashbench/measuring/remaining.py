"""Compute what a run still has to measure: launches of its plan, and cases of a launch."""

from collections.abc import Callable, Collection

from flashbench.case import Case
from flashbench.measuring.plan import Plan, case_order, launch_seed
from flashbench.measuring.retries import UNFINISHED
from flashbench.runfile import Launch, RunFile
from flashbench.shard import cases_of_shard

# Ids of cases that need no more launches, from the measurements so far.
Settled = Callable[[RunFile], Collection[str]]


class Remaining:
    """The rest of a plan. settled: returns the ids of cases that leave it."""

    def __init__(self, plan: Plan, settled: Settled) -> None:
        self._plan = plan
        self._ask = settled
        self._settled: frozenset[str] = frozenset()

    def launches(self, run: RunFile) -> list[Launch]:
        """Incomplete launches; a new one joins the file when it starts."""
        known = {launch.index: launch for launch in run.launches}
        planned = (
            known.get(index) or Launch(index=index, seed=launch_seed(self._plan.seed, index))
            for index in range(self._plan.launches)
        )
        return [launch for launch in planned if not launch.complete]

    def cases(self, run: RunFile, launch: Launch) -> dict[Case, list[str]]:
        """Cases in the launch's order, with the candidates that still lack a result."""
        there = {(result.case, result.candidate) for result in launch.results}
        names = [candidate.name for candidate in run.candidates]
        mine = set(cases_of_shard(run.cases, run.settings.shard))
        missing = {
            case: [name for name in names if (case.id, name) not in there]
            for case in case_order(run.cases, launch.seed)
            if case in mine and case.id not in self._settled
        }
        return {case: rest for case, rest in missing.items() if rest}

    def work(self, run: RunFile, launch: Launch) -> tuple[list[Case], list[Case]]:
        """The cases of a launch, and those of any launch after it."""
        mine = cases_of_shard(run.cases, run.settings.shard)
        return list(self.cases(run, launch)), [c for c in mine if c.id not in self._settled]

    def settle(self, run: RunFile) -> int:
        """Take settled cases out of the plan; returns how many are newly settled."""
        before = len(self._settled)
        self._settled |= frozenset(self._ask(run))
        return len(self._settled) - before

    @property
    def settled(self) -> frozenset[str]:
        """Ids of the cases that left the plan."""
        return self._settled

    def nothing(self, run: RunFile) -> bool:
        """Whether all cases left the plan."""
        return all(case.id in self._settled for case in run.cases)


def unfinished_launches(run: RunFile) -> int:
    """How many of the requested launches a resumed run would work on."""
    finished = sum(
        launch.complete and not any(result.status in UNFINISHED for result in launch.results)
        for launch in run.launches
        if 0 <= launch.index < run.settings.launches
    )
    return max(0, run.settings.launches - finished)
