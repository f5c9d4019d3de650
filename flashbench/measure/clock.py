"""The clock interface: turns a call into samples of one metric, in seconds per call."""

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from torch import Tensor

Call = Callable[[], Tensor]
_SLOWER = 4
_LEAST_SECONDS = 0.1


class MetricUnavailableError(Exception):
    """This metric is unavailable for this call; the message says why. Others may still work."""


class Sampler(Protocol):
    """One call, warmed up and calibrated, under one metric.

    calls: calls averaged per sample. sample_seconds: approximate duration of a sample.
    last: the output of the last timed call, for checking.
    """

    calls: int
    sample_seconds: float
    last: Tensor

    def block(self, samples: int) -> list[float]:
        """Take samples back to back, after one untimed call; seconds per call."""
        ...


class Clock(Protocol):
    """All metrics of a device; one at a time is measured over all candidates of a case."""

    metrics: tuple[str, ...]
    # A candidate gets fewer samples per launch and metric if all would take longer than this.
    max_metric_seconds: float

    def prepare(self, metric: str, call: Call) -> Sampler:
        """Warm up and calibrate; raises MetricUnavailableError."""
        ...

    def synchronize(self) -> None:
        """Wait until all queued work is done."""
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


def affordable_samples(
    clock: Clock, samplers: Mapping[str, Sampler], wanted: int
) -> dict[str, int]:
    """`wanted` samples of each, or as many as time allows; at least two.

    Time allows what the clock's limit allows; a candidate far slower than the fastest, as SDPA can
    be on a busy machine, gets `_SLOWER` times the fastest one's time.
    """
    if not samplers:
        return {}
    fastest = min(wanted * sampler.sample_seconds for sampler in samplers.values())
    seconds = min(clock.max_metric_seconds, max(_LEAST_SECONDS, _SLOWER * fastest))
    return {
        name: max(2, min(wanted, int(seconds / sampler.sample_seconds)))
        for name, sampler in samplers.items()
    }
