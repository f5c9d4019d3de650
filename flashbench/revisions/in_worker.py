"""Built revisions in a worker: each loaded from a copy, and searched for what it leaves there."""

from pathlib import Path

from flashbench.candidates import Loaded
from flashbench.measuring.protocol import Setup
from flashbench.revisions import traces
from flashbench.revisions.load import left_behind, load_copy
from flashbench.runfile import Candidate


class RevisionsInWorker:
    """As `measuring.worker.Revisions`. Looks for traces only where the setup asks for it."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._before = traces.state() if setup.traces else None
        self.trace = ""

    def load(self, candidate: Candidate) -> Loaded:
        """Raises NotMeasuredError as `load_copy`."""
        return load_copy(
            Path(self._setup.import_roots[candidate.name]),
            Path(self._setup.copies),
            candidate,
            alone=len(self._setup.import_roots) == 1,
            tree=self._setup.repository,
        )

    def look(self, when: str) -> None:
        """Look for new traces. when: what happened since the last look."""
        if self._before is None:
            return
        after = traces.state()
        what = traces.difference(self._before, after) or left_behind()
        self._before = after
        if what and not self.trace:
            self.trace = f"{what} {when}"
