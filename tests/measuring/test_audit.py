"""A look for traces that ends the process proves nothing, and says so."""

from dataclasses import replace
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from flashbench.errors import UnprovenError
from flashbench.measuring.plan import Plan, candidate_order
from flashbench.measuring.process import WorkerDiedError
from flashbench.measuring.progress import Progress
from flashbench.measuring.protocol import Audit
from flashbench.measuring.scheduler import Scheduler


class _Dies:
    """A worker that ends when it is asked."""

    killed = False

    def ask(self, request: object, seconds_left: float | None = None) -> None:
        assert isinstance(request, Audit)
        assert seconds_left is not None
        raise WorkerDiedError("", "crashed", "exit code 3")

    def kill(self) -> None:
        self.killed = True


def test_two_launches_are_looked_at() -> None:
    """One in either order of the revisions that share the process; paired processes share none."""
    plan = Plan(shapes=[], candidates=[], import_roots={"A": "a", "B": "b"})
    assert [plan.setup([], launch).traces for launch in range(4)] == [True, True, False, False]
    assert {tuple(candidate_order(["A", "B"], plan.seed, launch)) for launch in (0, 1)} == {
        ("A", "B"),
        ("B", "A"),
    }
    assert not replace(plan, processes="paired").looks_for_traces(0)
    assert not replace(plan, import_roots={"A": "a"}).looks_for_traces(0)


def test_process_that_ends_when_looked_at(tmp_path: Path) -> None:
    """Its revisions are unproven, neither out of budget nor a bug."""
    plan = Plan(shapes=[], candidates=[], import_roots={"A": "a", "B": "b"}, budget_seconds=60.0)
    scheduler = Scheduler(plan, tmp_path / "run.json", MagicMock(spec=Progress), None)
    worker = _Dies()
    scheduler._worker = worker  # type: ignore[assignment]
    with pytest.raises(UnprovenError, match="checked for traces: exit code 3"):
        scheduler._audit()
    assert worker.killed
