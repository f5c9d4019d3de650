"""Bisect a slowdown: prepare the two ends, and measure on demand into files that are kept."""

import hashlib
from collections.abc import Sequence

from flashbench.bisect.launches_on_demand import LaunchesOnDemand, own
from flashbench.bisect.question import Range
from flashbench.bisect.result import BisectResult, Conclusion, Cost
from flashbench.bisect.slowdown import Slowdown
from flashbench.builds import cache_directory
from flashbench.builds.missing_symbol import first_line
from flashbench.errors import NotMeasuredError
from flashbench.measuring.plan import Plan
from flashbench.measuring.progress import Progress
from flashbench.revisions.preparer import Preparer
from flashbench.runfile import Pair
from flashbench.streams import Tell


def find_slowdown(
    asked: Range,
    changes: Sequence[bool],
    preparer: Preparer,
    plan: Plan,
    rule: Pair,
    *,
    launches: int,
    jobs: int,
    identity: Sequence[object],
    force: bool,
    pays_builds: bool,
    progress: Progress,
    tell: Tell,
) -> BisectResult:
    """The commit that made a case slower. changes: of the range; plan: of every measurement,
    without builds; launches: at most, of the two ends; identity: what else, beside the range, tells
    this bisection from others; force: remove the run files of an earlier call; pays_builds:
    whether the plan's budget does.

    Raises NotMeasuredError if an end cannot be measured, CutShortError after Ctrl-C.
    """
    if not any(changes):
        answer = "no regression in this range: no commit changes what is built or imported"
        return BisectResult(asked, "speed", Conclusion.NONE, answer, [], Cost())
    good, bad = preparer.prepare([asked.good, asked.bad], "correct")
    for name, built in (("good", good), ("bad", bad)):
        for note in built.outcome.notes:
            tell(f"--{name}: {note}")
        if built.status == "unchecked":
            tell(f"--{name}: unchecked on small cases, {first_line(built.reason)}")
        if not built.is_measurable:
            hint = "; bisect --for correct" if name == "bad" else ""
            raise NotMeasuredError(f"--{name} {built.headline}{hint}")
    directory = cache_directory() / "bisect" / _digest(asked, identity)
    with own(directory, force=force):
        there = len(list(directory.glob("*.json")))
        tell(f"run files: {directory}; of an earlier call: {there}; --force measures all anew")
        on_demand = LaunchesOnDemand(
            plan, good, directory, rule, plan.budget_seconds, pays_builds=pays_builds
        )
        weights = [float(change) for change in changes]
        search = Slowdown(asked, on_demand, preparer, weights, rule.confidence, jobs, tell)
        return search.find(bad, launches, progress)


def _digest(asked: Range, identity: Sequence[object]) -> str:
    described = [asked.project.repository, asked.good.commit, asked.bad.commit, asked.first_parent]
    text = repr([*map(str, described), *identity])
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:16]
