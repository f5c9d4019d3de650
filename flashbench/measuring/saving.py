"""Save the growing run file: atomically, often and cheaply."""

import secrets
import time
from pathlib import Path

from flashbench.errors import FlashbenchError, NotMeasuredError
from flashbench.files import regular_target
from flashbench.runfile import RunFile, read, save

_MIN_INTERVAL = 1.0


class NotSavedError(NotMeasuredError):
    """The run file cannot be written: says nothing about the candidates, but ends the run."""


class Saving:
    """Where a run is saved, and when it last was.

    A device or pipe cannot be replaced: it gets the run once, at the end.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._grows = regular_target(path) is not None
        self._last = -1e9
        self._seconds = 0.0

    @property
    def due(self) -> bool:
        """Whether to save again: saving may take at most 5 % of the time."""
        return time.monotonic() - self._last > max(_MIN_INTERVAL, 20 * self._seconds)

    def holds(self, run: RunFile) -> bool:
        """Whether the file is this run already, maybe in an older form."""
        if not self._grows:
            return False
        try:
            return read(self.path) == run
        except FlashbenchError:
            return False

    def save(self, run: RunFile) -> None:
        """Replace the file; NotSavedError if that fails."""
        if self._grows:
            self._write(run)

    def end(self, run: RunFile) -> None:
        """Write a device or pipe; if that fails, the run is kept in a file here.

        Raises NotSavedError, even if that file was needed.
        """
        if self._grows:
            return
        try:
            save(run, self.path)
        except OSError as error:
            kept = Path(f"{self.path.name}-{secrets.token_hex(4)}.json")
            failed = f"{self.path}: cannot be written: {error.strerror}"
            try:
                save(run, kept)
            except OSError as second:
                raise NotSavedError(
                    f"{failed}; nor {kept}: {second.strerror}; nothing is saved"
                ) from None
            raise NotSavedError(f"{failed}; the run is in {kept} instead") from None

    def remove(self) -> None:
        """Remove the saved file, if there is one."""
        if self._last > 0 and self._grows:
            self.path.unlink(missing_ok=True)

    def _write(self, run: RunFile) -> None:
        start = time.monotonic()
        try:
            save(run, self.path)
        except OSError as error:
            raise NotSavedError(
                f"{self.path}: cannot be saved: {error.strerror}; what was saved before is intact"
            ) from None
        self._last = time.monotonic()
        self._seconds = self._last - start
