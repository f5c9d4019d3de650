"""The fate of each result and candidate, and how many met which."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from flashbench.runfile import Result, RunFile


class Fate(StrEnum):
    """The fate of a result, or of a candidate in a whole run."""

    MEASURED = "measured"
    WRONG = "wrong"
    FAILED = "failed"  # it raised, crashed, hung, ran out of memory, or gave no time
    UNSUPPORTED = "unsupported"
    UNREACHED = "not reached"  # before the budget was spent, or the run was interrupted


_FATES = {
    "wrong": Fate.WRONG,
    "unsupported": Fate.UNSUPPORTED,
    "interrupted": Fate.UNREACHED,
    "over_budget": Fate.UNREACHED,
}


def has_time(result: Result) -> bool:
    """A correct result without any time (no metric available, all blocks throttled) has none."""
    return result.status == "ok" and any(timing.seconds for timing in result.timings)


def fate(result: Result) -> Fate:
    """The fate of one candidate on one case in one launch."""
    return Fate.MEASURED if has_time(result) else _FATES.get(result.status, Fate.FAILED)


def counted(fates: Iterable[Fate]) -> str:
    """`2 measured, 1 wrong`: nonzero counts in the order of Fate; `0 measured` if there are
    none."""
    counts = Counter(fates)
    there = [each for each in Fate if counts[each] or each is Fate.MEASURED]
    return ", ".join(f"{counts[each]} {each}" for each in there)


@dataclass(frozen=True, slots=True)
class CandidateFate:
    """A candidate's fate, and one line on what is missing, or ""."""

    fate: Fate
    reason: str = ""


def fate_of(run: RunFile, candidate: str) -> CandidateFate:
    """A candidate's fate over all launches: wrong if any result is, else measured if any is, else
    the first of FAILED, UNREACHED and UNSUPPORTED that occurs."""
    results = [r for launch in run.launches for r in launch.results if r.candidate == candidate]
    total = len({result.case for result in results}) or len(run.cases)
    timed = {result.case for result in results if has_time(result)}
    without = [result for result in results if result.case not in timed]
    for each in (Fate.WRONG, Fate.FAILED, Fate.UNREACHED, Fate.UNSUPPORTED):
        among = results if each is Fate.WRONG else without
        found = [result for result in among if fate(result) is each]
        if found:
            is_measured = timed and each is not Fate.WRONG
            return CandidateFate(
                Fate.MEASURED if is_measured else each, _reason(each, found, total)
            )
    return (
        CandidateFate(Fate.MEASURED)
        if timed
        else CandidateFate(Fate.UNREACHED, "no result in the run file")
    )


def _reason(what: Fate, found: Sequence[Result], total: int) -> str:
    """`wrong on 1 of 3 cases; CASE: max error ...`; with the status if the fate does not imply
    it."""
    first, cases = found[0], len({result.case for result in found})
    status = "no times" if first.status == "ok" else first.status.replace("_", " ")
    parts = (first.case, status if status != what else "", first.reason)
    said = ": ".join(part for part in parts if part)
    return f"{what} on {cases} of {total} cases; {said}"
