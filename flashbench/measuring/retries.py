"""Track each candidate's failures in a run, and decide which are not worth another try."""

from collections import defaultdict
from collections.abc import Iterator

from flashbench.runfile import Result, ResultStatus

# These statuses are no evidence: a resumed run measures them.
UNFINISHED: frozenset[ResultStatus] = frozenset({"interrupted", "over_budget"})
# These fail at every try; others get a second one in a later launch.
_FINAL: frozenset[ResultStatus] = frozenset({"unsupported", "wrong"})
_RETRIED: frozenset[ResultStatus] = frozenset({"error", "crashed", "timeout", "out_of_memory"})
_DEADLY: frozenset[ResultStatus] = frozenset({"crashed", "timeout"})
_TRIES = 2
# A candidate that killed this many workers and never finished a case is given up altogether.
_HOPELESS = 4
_NOT_AGAIN = " (not tried again)"


class Retries:
    """Results of a run, by case and candidate."""

    def __init__(self) -> None:
        self._results: defaultdict[str, defaultdict[str, list[Result]]] = defaultdict(
            lambda: defaultdict(list)
        )

    def add(self, result: Result) -> None:
        self._results[result.candidate][result.case].append(result)

    def given_up(self, case: str, candidate: str) -> Result | None:
        """The result to record instead of another try, or None if it is worth one.

        A hang must not cost its time-out in every launch, and an unsupported case stays so.
        """
        earlier = self._results[candidate][case]
        final = [result for result in earlier if result.status in _FINAL]
        failures = [result for result in earlier if result.status in _RETRIED]
        if final or len(failures) >= _TRIES:
            shown = (final or failures)[0]
            correctness = shown.correctness
        elif deaths := self._hopeless(candidate):
            shown, correctness = deaths[0], None
        else:
            return None
        return Result(
            case=case,
            candidate=candidate,
            status=shown.status,
            reason=shown.reason.removesuffix(_NOT_AGAIN) + _NOT_AGAIN,
            correctness=correctness,
        )

    def _of(self, candidate: str) -> Iterator[Result]:
        for results in self._results[candidate].values():
            yield from results

    def _hopeless(self, candidate: str) -> list[Result]:
        deaths = [result for result in self._of(candidate) if result.status in _DEADLY]
        if len(deaths) < _HOPELESS or any(r.status == "ok" for r in self._of(candidate)):
            return []
        return deaths
