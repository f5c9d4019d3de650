"""The remaining time of a run: the planner's estimate, corrected by the run's own progress."""

from collections.abc import Collection

from flashbench.case import Case
from flashbench.cost import store
from flashbench.cost.estimate import Work, case_seconds, first_seconds
from flashbench.cost.known import Basis, Experience
from flashbench.cost.learn import processes_of
from flashbench.machine import identify
from flashbench.measuring.plan import Plan
from flashbench.metric import metrics_of
from flashbench.runfile import RunFile

# The weight of the plan against the run's progress, in launches: an estimate from earlier runs is
# trusted longer than a guess.
_TRUSTED = {Basis.KNOWN: 1.0, Basis.NEAR: 0.3, Basis.GUESS: 0.05}


class TimeLeft:
    """Call `launch` when a launch begins, and `step` when one of its cases is done."""

    def __init__(self, run: RunFile, plan: Plan) -> None:
        device = run.cases[0].device
        known = Experience(device, store.read().find(device, *identify(run.environment, device)))
        work = Work(
            cases=run.cases,
            candidates=[candidate.spec for candidate in run.candidates],
            launches=plan.launches,
            samples=run.settings.samples,
            min_sample_seconds=run.settings.min_sample_seconds,
            metrics=len(plan.metrics or metrics_of(device)),
            processes=processes_of(run),
        )
        self._each = {case: case_seconds(work, case, known) for case in run.cases}
        self._first = {case: first_seconds(work, case, known) for case in run.cases}
        start = known.start(work.processes, work.candidates)
        self._start, self._later_start = start.first, start.later
        if run.settings.workers == "fresh":
            self._later_start = start.first
        self._launches = dict.fromkeys(run.cases, float(plan.launches))
        if plan.pair is not None:
            rule = plan.pair.tolerance, plan.pair.confidence
            counts, _ = known.launches(work, *rule)
            self._launches = {
                case: count.likely for case, count in zip(run.cases, counts, strict=True)
            }
        trusted = _TRUSTED[known.level_of(work)]
        self._weight = trusted * (self._later_start + sum(self._each.values()))
        self._left = self._planned = self._taken = 0.0
        self._of_case: dict[Case, float] = {}
        self._to_start = self._counted = 0.0

    def launch(
        self, index: int, now: Collection[Case], wanted: Collection[Case], seconds: float = 0.0
    ) -> None:
        """A launch begins, or resumes after `seconds`. now: the cases it lacks; wanted: the cases
        that need more launches."""
        more = [(case, max(0.0, self._launches[case] - index - 1)) for case in wanted]
        later = sum(self._each[case] * count for case, count in more)
        starts = max((count for _, count in more), default=0.0)
        self._of_case = {
            case: self._each[case] + (self._first[case] if index == 0 else 0.0) for case in now
        }
        self._to_start, self._counted = self._start, seconds
        self._start = self._later_start
        self._left = self._to_start + starts * self._start + later + sum(self._of_case.values())

    def step(self, case: Case, launch_seconds: float) -> None:
        """A case is done. launch_seconds: the time of its launch so far."""
        planned, self._to_start = self._of_case.pop(case, 0.0) + self._to_start, 0.0
        self._left -= planned
        self._planned += planned
        self._taken += launch_seconds - self._counted
        self._counted = launch_seconds

    def within(self, budget: float | None) -> float:
        """Seconds until the estimated end, or until the remaining budget is spent."""
        met = (self._taken + self._weight) / (self._planned + self._weight)
        left = max(0.0, self._left) * met
        return left if budget is None else max(0.0, min(left, budget))
