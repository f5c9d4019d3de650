"""Attribute seconds to candidates while a worker measures a case."""

from collections import defaultdict
from collections.abc import Callable, Collection
from time import monotonic

from flashbench.runfile import Result


class Stopwatch:
    """Attributes the time until the next phase to the candidate of the current one. metrics: names
    of phases that are turns at the clock."""

    def __init__(self, on_phase: Callable[[str, str], None], metrics: Collection[str]) -> None:
        self._on_phase, self._metrics = on_phase, metrics
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._sampling: defaultdict[str, float] = defaultdict(float)
        self._candidate, self._at_the_clock = "", False
        self._since = monotonic()

    def begin(self, candidate: str, doing: str) -> None:
        """Start a phase and report it; candidate "": it is for none of them."""
        self.switch(candidate, at_the_clock=doing in self._metrics)
        self._on_phase(candidate, doing)

    def switch(self, candidate: str = "", *, at_the_clock: bool = False) -> None:
        """Start a phase without reporting it to the parent."""
        now = monotonic()
        self._seconds[self._candidate] += now - self._since
        if self._at_the_clock:
            self._sampling[self._candidate] += now - self._since
        self._candidate, self._at_the_clock, self._since = candidate, at_the_clock, now

    def write(self, result: Result) -> None:
        """Store a result's seconds."""
        self.switch()
        result.device_seconds = round(self._seconds[result.candidate], 6)
        result.sampling_seconds = min(
            round(self._sampling[result.candidate], 6), result.device_seconds
        )
