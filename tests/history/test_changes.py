"""Changes of a history in commits: where they may lie, and what hides them."""

from pathlib import Path

import numpy as np
import pytest
from history.project import CASES, make_repository, measure

from flashbench.history.axis import axis
from flashbench.history.changes import find
from flashbench.history.model import Change, History
from flashbench.history.read import read

COMMITS, CHANGED = 60, 30


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """60 commits; three around a slowdown of 5 % in one case were not measured."""
    root = tmp_path_factory.mktemp("project")
    commits = make_repository(root, [f"Change {index}" for index in range(COMMITS)])
    places = [index for index in range(COMMITS) if index not in (29, 30, 31)]

    def level(index: int, case: str) -> float:
        return 0.525 if places[index] >= CHANGED and case == CASES[0] else 0.5

    measure(root / "results", [commits[place] for place in places], level)
    return root, commits


def changes_of(history: History) -> list[tuple[str, Change]]:
    series = [one for one in history.series if not one.baseline]
    found = find(history, series)
    return [
        (one.case, change)
        for one, changes in zip(series, found.changes, strict=True)
        for change in changes or ()
    ]


def test_a_change_is_found_in_its_series_alone(project) -> None:
    """5 % in the ratio is seen at 1 % noise while the machine itself wanders by 10 %."""
    root, _ = project
    ((case, change),) = changes_of(read(root / "results", axis(root)))
    assert case == CASES[0]
    assert change.first <= CHANGED <= change.last
    assert change.speedup.value == pytest.approx(-np.log(1.05), abs=0.01)
    assert change.speedup.high < 0
    assert (change.before, change.after) == (29, 28)


def test_broken_commits_in_the_range_are_told(project) -> None:
    """Commits of the range that were not measured are counted, and those that cannot be named."""
    root, commits = project
    failed = {commits[30]: "compile error: x", commits[10]: "link error: y"}
    ((_, change),) = changes_of(read(root / "results", axis(root), failed=failed))
    assert change.unmeasured == 3
    assert [(gap.commit, gap.status) for gap in change.hidden] == [(30, "compile error")]


def test_too_few_points_are_no_answer(project) -> None:
    """A series of fewer than eight points has None for changes, not none."""
    root, commits = project
    history = read(root / "results", axis(root, commits[6]))
    assert find(history, history.series).changes == (None,) * 4
    assert find(history, []).changes == ()
