"""The clock interface: turns a call into samples of one metric, in seconds per call."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from torch import Tensor

Output = Tensor | tuple[Tensor, ...]  # one result, or several
Call = Callable[[], Output]


class MetricUnavailableError(Exception):
    """This metric is unavailable for this call; the message says why. Others may still work."""


class Sampler(Protocol):
    """One call, warmed up and calibrated, under one metric.

    calls: calls averaged per sample. sample_seconds: approximate duration of a sample.
    last: the output of the last timed call, for checking.
    """

    calls: int
    sample_seconds: float
    last: Output

    def block(self, samples: int) -> list[float]:
        """Take samples back to back, after one untimed call; seconds per call."""
        ...


class Clock(Protocol):
    """All metrics of a device; one at a time is measured over all candidates of a case."""

    metrics: tuple[str, ...]
    # A candidate gets fewer samples per launch and metric if all would take longer than this.
    max_metric_seconds: float

    def sampler(self, metric: str, call: Call) -> Sampler:
        """Warm up and calibrate; raises MetricUnavailableError."""
        ...

    def synchronize(self) -> None:
        """Wait until all queued work is done."""
        ...

    def rest(self) -> None:
        """Wait until threads of earlier calls no longer take processors from the next one."""
        ...


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Disable collection while sampling: it would be charged to whichever candidate it hits."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
