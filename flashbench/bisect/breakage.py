"""Search for the commit that broke the build, the import or the results, with one exact answer per
commit."""

import time
from collections.abc import Sequence

from flashbench.bisect.faults import Fault, FaultSearch
from flashbench.bisect.question import Range, works
from flashbench.bisect.result import BisectResult, Conclusion, Cost, TriedCommit
from flashbench.builds.missing_symbol import first_line
from flashbench.errors import NotMeasuredError
from flashbench.revisions import Built
from flashbench.revisions.built import seconds_of
from flashbench.revisions.ledger import Stage
from flashbench.revisions.preparer import Preparer
from flashbench.streams import Tell

_WORKS = {"build": "builds", "load": "loads", "correct": "is right"}
_FAILS = {"build": "does not build", "load": "does not load", "correct": "is wrong"}
_FAILS_NAMED = "is wrong on a named case or refuses it"


class _OutOfTimeError(Exception):
    """The builds spent --budget."""


def find_breakage(
    asked: Range,
    purpose: Stage,
    preparer: Preparer,
    *,
    jobs: int,
    quick: bool,
    budget: float | None,
    named: bool = False,
    tell: Tell,
) -> BisectResult:
    """The last commit that works, and the first that does not. quick: halving alone, which is
    correct if nothing was broken and repaired. budget: wall-clock seconds after which no more
    commits are tried; the two ends always are. named: the preparer checks cases that the user
    named, and a commit that refuses one does not work.

    Raises NotMeasuredError if the good end does not work, or the bad one fails earlier than asked.
    """
    started = time.monotonic()
    tried: dict[int, TriedCommit] = {}
    cost = Cost()

    def attempt(places: Sequence[int]) -> dict[int, bool | None]:
        revisions = [asked.good if place < 0 else asked.commits[place].revision for place in places]
        built = preparer.prepare(revisions, purpose)
        count(cost, built)
        for place, one in zip(places, built, strict=True):
            tried[place] = TriedCommit(place, one.outcome)
            tell(f"{one.revision.commit[:12]}: {one.status}")
        return {
            place: works(one, purpose, named=named)
            for place, one in zip(places, built, strict=True)
        }

    def attempt_in_time(places: Sequence[int]) -> dict[int, bool | None]:
        if budget is not None and time.monotonic() - started > budget:
            raise _OutOfTimeError
        return attempt(places)

    bad = asked.graph.size - 1
    ends = attempt([-1, bad])
    for place, label, wanted in ((-1, "good", True), (bad, "bad", False)):
        if ends[place] is None or (wanted and not ends[place]):
            line = first_line(tried[place].reason)
            why = f"--{label} {(asked.good if wanted else asked.bad).label}: "
            why += f"{tried[place].status}: {line}"
            fix = "name another commit, or another --for"
            if tried[place].status == "unchecked":
                fix = "name a case that it supports with --case, another commit, or another --for"
            raise NotMeasuredError(f"{why}; {fix}")
    if ends[bad]:
        answer = f"nothing is broken: {asked.bad.label} {_WORKS[purpose]}"
        if (outcome := tried[bad].outcome) and outcome.checked:
            answer += f" on {outcome.checked}"
        return BisectResult(asked, purpose, Conclusion.NONE, answer, _rows(tried), cost, last=bad)
    search = FaultSearch(asked.graph, attempt_in_time, jobs)
    search.answers[bad] = False
    stopped = False
    try:
        search.halve()
        if not quick:
            search.prove()
    except _OutOfTimeError:
        stopped = True
    fails = _FAILS_NAMED if named else _FAILS[purpose]
    return _found(asked, purpose, fails, search.answer(), tried, cost, stopped=stopped)


def _found(
    asked: Range,
    purpose: Stage,
    fails: str,
    fault: Fault,
    tried: dict[int, TriedCommit],
    cost: Cost,
    *,
    stopped: bool,
) -> BisectResult:
    notes = []
    if fault.before != fault.last:
        named = _name(asked, fault.before)
        notes.append(
            (
                "other-branch",
                f"before {_name(asked, fault.first)}, on its own branch, the "
                f"last that {_WORKS[purpose]} is {named}",
            )
        )
    if fault.untried:
        why = "the budget was spent" if stopped else "--quick"
        notes.append(("not-tried", f"{why}: {fault.untried} later commits were not tried"))
    for place, one in tried.items():
        if place == fault.first:
            one.role = f"first that {fails}"
        elif place in fault.candidates:
            one.role = "candidate"
        elif place == (-1 if fault.last is None else fault.last):
            one.role = f"last that {_WORKS[purpose]}"
    first = tried[fault.first]
    why = first_line(first.reason)
    last = f"last that {_WORKS[purpose]}: {_name(asked, fault.last)}"
    if stopped and fault.untried:
        conclusion = Conclusion.UNDECIDED
        answer = f"stopped by the budget; so far the {last}, and {_name(asked, fault.first)} "
        answer += f"{fails}"
    elif len(fault.candidates) > 1:
        conclusion = Conclusion.HIDDEN
        answer = f"{last}; the first that {fails} is one of {len(fault.candidates)} "
        answer += f"commits; {len(fault.candidates) - 1} of them could not be tested"
    else:
        conclusion = Conclusion.FOUND
        answer = f"{last}; first that {fails}: {_name(asked, fault.first)}: "
        answer += f"{first.status}: {why}"
    return BisectResult(
        asked,
        purpose,
        conclusion,
        answer,
        _rows(tried),
        cost,
        candidates=fault.candidates,
        last=fault.last,
        notes=notes,
    )


def count(cost: Cost, built: Sequence[Built]) -> None:
    """Count commits that were prepared together."""
    cost.commits += len(built)
    cost.builds += sum(not one.build.reused for one in built)
    cost.build_seconds += seconds_of(built)


def _rows(tried: dict[int, TriedCommit]) -> list[TriedCommit]:
    return [tried[place] for place in sorted(tried)]


def _name(asked: Range, place: int | None) -> str:
    if place is None or place < 0:
        return asked.good.label
    return asked.commits[place].id[:12]
