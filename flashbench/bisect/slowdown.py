"""Search for the commit that made a case slower, with launches of two builds side by side."""

import math
from dataclasses import dataclass, field, replace

import numpy as np

from flashbench.bisect.breakage import count
from flashbench.bisect.culprit import Search
from flashbench.bisect.launches_on_demand import SLOWER, LaunchesOnDemand, SpentError, slowest
from flashbench.bisect.question import Range
from flashbench.bisect.result import BisectResult, Conclusion, Cost, TriedCommit
from flashbench.case import Case
from flashbench.errors import Exit, NotMeasuredError
from flashbench.measuring.progress import Progress
from flashbench.outcome import Outcome
from flashbench.report import Report
from flashbench.revisions import Built
from flashbench.revisions.preparer import Preparer
from flashbench.streams import Tell
from flashbench.verdict import exit_code

_MOST = 400  # launches of a bisection: more than any that terminates needs


@dataclass
class Slowdown:
    """One search. jobs: builds at once; tell: prints progress on stderr."""

    asked: Range
    on_demand: LaunchesOnDemand
    preparer: Preparer
    weights: list[float]
    confidence: float
    jobs: int
    tell: Tell
    cost: Cost = field(default_factory=Cost)
    tried: dict[int, TriedCommit] = field(default_factory=dict)
    built: dict[int, Built] = field(default_factory=dict)

    def find(self, bad: Built, launches: int, progress: Progress) -> BisectResult:
        """Compare the ends, then bisect on the case that is slower by the most.

        bad: the last commit, prepared. launches: at most, for that comparison. Raises
        NotMeasuredError if the ends cannot be compared, CutShortError after Ctrl-C.
        """
        last = self.asked.graph.size - 1
        self.built[last] = bad
        for number, end in ((-1, self.on_demand.good), (last, bad)):
            self.tried[number] = TriedCommit(number, end.outcome)
        count(self.cost, [self.on_demand.good, bad])
        self.on_demand.build_seconds = self.cost.build_seconds
        try:
            report = self.on_demand.ends(bad, launches, progress)
        except SpentError:
            return self._stopped(
                "the budget was spent before the two ends were compared; the same command with a "
                "larger one resumes"
            )
        finally:
            self._account()
        self.cost.launches = len(report.data[0].run.launches)
        place = slowest(report)
        if place is None:
            return self._no_slowdown(report)
        comparison = report.comparisons[place]
        case = next(c for c in report.data[0].run.cases if c.id == comparison.case.id)
        ratios = [-float(value) for value in comparison.pairing.sides[0]]
        slowdown = float(np.mean(ratios))
        others = sum(verdict.outcome in SLOWER for verdict in report.verdicts) - 1
        more = f" ({others} more cases are slower, too)" if others else ""
        self.tell(f"{case.id}: slower by {percent(slowdown)}{more}; bisecting on it")
        search = Search(self.asked.graph, np.array(self.weights), slowdown)
        search.launches[last] = ratios
        self.tried[last].launches = ratios
        return self._bisect(search, case)

    def _account(self) -> None:
        measured, cost = self.on_demand, self.cost
        cost.device_seconds, cost.lost_seconds = measured.seconds, measured.lost
        cost.saved_seconds = measured.saved

    def _bisect(self, search: Search, case: Case) -> BisectResult:
        spent = ""
        known: set[int] = {self.asked.graph.size - 1}
        taken = 0
        try:
            while (place := search.next(self.confidence)) is not None:
                if place not in known:
                    likely = [x for x in search.spread(self.jobs | 1) if x not in known | {place}]
                    places = [place, *likely[: self.jobs - 1]]
                    known.update(places)
                    self._prepare(places, case, search)
                    continue  # a skip, or launches of an earlier call, may change it
                if taken == _MOST:
                    spent = f"{_MOST} launches did not decide"
                    break
                taken += 1
                self._launch(place, case, search)
        except SpentError:
            spent = "the budget was spent"
        self._account()
        probabilities = search.probabilities()
        for place, one in self.tried.items():
            if place >= 0:
                one.probability = float(probabilities[place])
        found, probability = search.answer()
        for place in found:
            self.tried.setdefault(place, TriedCommit(place))
            self.tried[place].probability = float(probabilities[place])
            self.tried[place].role = "first slower" if len(found) == 1 else "candidate"
        return self._found(search, case, found, probability, spent)

    def _prepare(self, places: list[int], case: Case, search: Search) -> None:
        """Build commits, or skip them; results of earlier launches count."""
        commits = [self.asked.commits[place] for place in places]
        built = self.preparer.prepare([commit.revision for commit in commits], "correct")
        count(self.cost, built)
        for place, commit, one in zip(places, commits, built, strict=True):
            self.built[place] = one
            self.tried[place] = TriedCommit(place, one.outcome)
            if not one.is_measurable:
                self.tell(f"{commit.id[:12]}: skipped: {one.status}")
                search.skip(place)
                continue
            for ratio in self.on_demand.known(one, case):
                search.record(place, ratio)
                self.tried[place].launches.append(ratio)
        self.on_demand.build_seconds = self.cost.build_seconds

    def _launch(self, place: int, case: Case, search: Search) -> None:
        commit, one = self.asked.commits[place], self.tried[place]
        ratio = self.on_demand.launch(self.built[place], case)
        self.cost.launches += 1
        if ratio is None:
            one.unmeasured = self.on_demand.reasons.get(commit.id, "")
            self.tell(f"{commit.id[:12]}: skipped: {one.unmeasured}")
            search.skip(place)
            return
        search.record(place, ratio)
        one.launches.append(ratio)
        found, probability = search.answer()
        likeliest = self.asked.commits[found[-1]].id[:12]
        self.tell(
            f"{commit.id[:12]}: {percent(ratio)}; likeliest {likeliest} ({100 * probability:.0f} %)"
        )

    def _found(
        self, search: Search, case: Case, found: list[int], probability: float, spent: str
    ) -> BisectResult:
        names = [self.asked.commits[place].id[:12] for place in found]
        values = search.launches[self.asked.graph.size - 1]
        slowdown = float(np.mean(values))
        sure = f"probability {100 * probability:.1f} %"
        if spent or probability < self.confidence:  # certainty from too few launches does not count
            conclusion = Conclusion.UNDECIDED
            why = spent or "nothing measurable is left"
            answer = f"{why}; so far the likeliest is {names[-1]} ({sure})"
        elif len(found) == 1:
            conclusion = Conclusion.FOUND
            answer = f"{names[0]} made {case.id} slower ({percent(slowdown)} in all); {sure}"
        else:
            conclusion = Conclusion.HIDDEN
            answer = f"one of {len(found)} commits made {case.id} slower ({percent(slowdown)} in "
            answer += f"all; {sure}): those between cannot be measured"
        return replace(
            self._result(conclusion, answer),
            candidates=tuple(found),
            probability=probability,
            case=case.id,
            slowdown=math.expm1(slowdown),
        )

    def _no_slowdown(self, report: Report) -> BisectResult:
        code = exit_code(report.verdicts)
        ends = f"{self.asked.bad.label} against {self.asked.good.label}"
        if code == Exit.PASS:
            return self._result(
                Conclusion.NONE, f"no regression in this range: {ends}: no case is slower"
            )
        fine = (Outcome.SAME, Outcome.FASTER, Outcome.PERHAPS_FASTER)
        reasons = [v.full_reason for v in report.verdicts if v.outcome not in fine]
        if code == Exit.UNDECIDED:
            return self._result(Conclusion.UNDECIDED, f"{ends}: undecided: {reasons[0]}")
        raise NotMeasuredError(f"{ends}: {reasons[0] if reasons else 'nothing to compare'}")

    def _stopped(self, why: str) -> BisectResult:
        return self._result(Conclusion.UNDECIDED, why)

    def _result(self, conclusion: Conclusion, answer: str) -> BisectResult:
        rows = [self.tried[place] for place in sorted(self.tried)]
        return BisectResult(self.asked, "speed", conclusion, answer, rows, self.cost)


def percent(log_ratio: float) -> str:
    """A log-ratio of times as `+3.1 %`."""
    return f"{100 * math.expm1(log_ratio):+.1f} %"
