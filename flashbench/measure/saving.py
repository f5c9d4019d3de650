"""The run file while it grows: whole at any moment, written often but not at the cost of time."""

import time
from pathlib import Path

from flashbench.errors import NotMeasuredError
from flashbench.runfile import RunFile, save

_MIN_INTERVAL = 1.0


class NotSavedError(NotMeasuredError):
    """The run file cannot be written: nothing about what is measured, and no reason to go on."""


class Saving:
    """Where a run is saved, and when that was last done."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._last = -1e9
        self._seconds = 0.0

    @property
    def due(self) -> bool:
        """Whether it is time again: saving may take 5 % of the time at most."""
        return time.monotonic() - self._last > max(_MIN_INTERVAL, 20 * self._seconds)

    def save(self, run: RunFile) -> None:
        """Replace the file; NotSavedError where that cannot be done."""
        start = time.monotonic()
        try:
            save(run, self.path)
        except OSError as error:
            raise NotSavedError(
                f"{self.path}: cannot be saved: {error.strerror}; what was saved before is whole"
            ) from None
        self._last = time.monotonic()
        self._seconds = self._last - start
