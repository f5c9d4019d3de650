"""What a bisection says where --budget ends it; builds and launches are made up."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from flashbench.bisect.breakage import find_breakage
from flashbench.bisect.culprit import Search
from flashbench.bisect.graph import graph_of
from flashbench.bisect.launches_on_demand import SpentError
from flashbench.bisect.question import Range
from flashbench.bisect.result import Conclusion
from flashbench.bisect.slowdown import Slowdown
from flashbench.revisions import Project, Revision
from flashbench.revisions.commits import Commit

GOOD = "f" * 40


@pytest.fixture
def asked() -> Range:
    """Eight commits in a line."""
    names = [f"{place:040x}" for place in range(8)]
    parents = [GOOD, *names[:-1]]
    commits = tuple(
        Commit(name, (parent,), 0, "A", "words")
        for name, parent in zip(names, parents, strict=True)
    )
    project = Project(Path("repository"), "kernel:attention")
    ends = Revision("v1", GOOD), Revision("HEAD", names[-1])
    return Range(project, *ends, commits, graph_of(commits))


class Builds:
    """In place of a Preparer: `broken` commits do not compile."""

    def __init__(self, *broken: str) -> None:
        self.broken = broken

    def prepare(self, revisions: list[Revision], _: str) -> list[Any]:
        made = SimpleNamespace(reused=True, status="built")
        tried = ["compile error" if one.commit in self.broken else "built" for one in revisions]
        return [
            SimpleNamespace(
                revision=one,
                status=status,
                outcome=SimpleNamespace(status=status, reason="words", checked=""),
                is_measurable=one.commit not in self.broken,
                kept=True,
                build=made,
                when=(0.0, 2.0),
            )
            for one, status in zip(revisions, tried, strict=True)
        ]


class Launches:
    """In place of LaunchesOnDemand: commits from number 4 on are slower by 5 %; `left` launches."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.seconds = self.lost = self.saved = 0.0

    def known(self, *_: Any) -> list[float]:
        return []

    def launch(self, commit: Any, _: Any) -> float:
        if not self.left:
            raise SpentError
        self.left -= 1
        return 0.05 if int(commit.revision.commit, 16) >= 4 else 0.0


@pytest.mark.parametrize(("launches", "outcome"), [(3, "UNDECIDED"), (50, "FOUND")])
def test_no_launch_decides_alone_for_want_of_budget(
    asked: Range, launches: int, outcome: str
) -> None:
    """A commit that is likely enough by one launch on each side is not found, but undecided."""
    builds: Any = Builds()
    on_demand: Any = Launches(launches)
    case: Any = SimpleNamespace(id="case")
    search = Search(asked.graph, np.ones(8), 0.05)
    search.launches[7] = [0.05, 0.05, 0.05]
    slowdown = Slowdown(asked, on_demand, builds, [1.0] * 8, 0.6, 1, lambda _: None)
    found = slowdown._bisect(search, case)
    assert found.probability is not None
    assert found.probability > 0.6
    assert found.candidates == (4,)
    assert found.conclusion.value == outcome
    assert ("the budget was spent" in found.answer) == (outcome == "UNDECIDED")


@pytest.mark.parametrize(("budget", "outcome"), [(0.0, "UNDECIDED"), (None, "FOUND")])
def test_ends_are_tried_with_any_budget(asked: Range, budget: float | None, outcome: str) -> None:
    """Where the two ends took it all, no other commit is tried, and that is said."""
    builds: Any = Builds(*(one.id for one in asked.commits[5:]))
    found = find_breakage(
        asked, "build", builds, jobs=1, quick=False, budget=budget, tell=lambda _: None
    )
    assert found.conclusion == Conclusion(outcome)
    assert len(found.tried) == 2 if outcome == "UNDECIDED" else len(found.tried) > 2
    assert found.cost.build_seconds == 2 * (len(found.tried) - 1)  # the ends were side by side
    assert ("stopped by the budget" in found.answer) == (outcome == "UNDECIDED")
