"""Progress on stderr: a bar with the time left on a terminal, else one line per launch."""

import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Self

from flashbench.render.escape import printable


class Progress:
    """Receives events; entered before the first launch and left after the last. Prints only notes,
    for logs. words: turns a note's flags into what its reader can set."""

    def __init__(self, words: Callable[[str], str] = str) -> None:
        self._words = words

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def begin(self, steps: int, left: float) -> None:
        """This many cases (one launch each) will be measured; left: seconds until the end."""

    def case(self, launch: int, case: str) -> None:
        """This case is being measured."""

    def step(self, left: float) -> None:
        """One case of one launch is done; left: as above."""

    def note(self, text: str) -> None:
        """Print a line: a launch is done, something failed. It may quote a candidate's output."""
        print(f"flashbench: {printable(self._words(text))}", file=sys.stderr, flush=True)


class Silent(Progress):
    """Prints nothing: the caller reports it better, or wants nothing."""

    def note(self, text: str) -> None:
        pass


class BarProgress(Progress):
    """For a terminal: rich's bar, with what is measured now and the time left."""

    def __init__(self, words: Callable[[str], str] = str) -> None:
        from rich import progress
        from rich.console import Console

        super().__init__(words)
        self._console = Console(stderr=True)
        self._end: float | None = None  # by the monotonic clock
        self._bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[shown].left}"),
            console=self._console,
            transient=True,
            refresh_per_second=2,  # few redraws: the machine is being measured
        )
        self._task = self._bar.add_task("starting", total=None, shown=self)

    @property
    def left(self) -> str:
        """The time left, as `1:02:03`; "" before the first launch."""
        if self._end is None:
            return ""
        return str(timedelta(seconds=round(max(0.0, self._end - time.monotonic()))))

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def begin(self, steps: int, left: float) -> None:
        self._bar.update(self._task, total=steps)
        self._end = time.monotonic() + left

    def case(self, launch: int, case: str) -> None:
        self._bar.update(self._task, description=f"launch {launch + 1}: {case}")

    def step(self, left: float) -> None:
        self._bar.advance(self._task)
        self._end = time.monotonic() + left

    def note(self, text: str) -> None:
        line = f"flashbench: {printable(self._words(text))}"
        self._console.print(line, markup=False, highlight=False)


def make_progress(words: Callable[[str], str] = str) -> Progress:
    """The bar if stderr is a terminal, lines otherwise. words: as in `Progress`."""
    return BarProgress(words) if sys.stderr.isatty() else Progress(words)
