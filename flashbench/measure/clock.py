"""What a clock is: it turns a call into samples of one metric, seconds a call."""

import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from torch import Tensor

Call = Callable[[], Tensor]
_SLOWER = 4
_LEAST_SECONDS = 0.1


class MetricUnavailableError(Exception):
    """This metric cannot be had of this call; the message says why. Others may still be."""


class Sampler(Protocol):
    """One call, warmed up and calibrated, under one metric.

    calls: calls a sample, averaged. sample_seconds: what one sample takes, about.
    last: the output of the last timed call, for checking.
    """

    calls: int
    sample_seconds: float
    last: Tensor

    def block(self, samples: int) -> list[float]:
        """Take samples back to back, after one call that is not timed; seconds a call."""
        ...


class Clock(Protocol):
    """All metrics of a device; one at a time is measured over all candidates of a case."""

    metrics: tuple[str, ...]
    # A candidate gets fewer samples a launch and metric when all would take longer than this.
    max_metric_seconds: float

    def prepare(self, metric: str, call: Call) -> Sampler:
        """Warm up and calibrate; raises MetricUnavailableError."""
        ...

    def synchronize(self) -> None:
        """Wait until all work that was queued is done."""
        ...


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """While samples are taken: a collection would be charged to the candidate it falls on."""
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
    """`wanted` samples of each, or as many as there is time for; two at the least.

    There is time for what the clock allows, and for whoever is far slower than the fastest, as SDPA
    can be on a busy machine, for `_SLOWER` times what that one takes.
    """
    if not samplers:
        return {}
    fastest = min(wanted * sampler.sample_seconds for sampler in samplers.values())
    seconds = min(clock.max_metric_seconds, max(_LEAST_SECONDS, _SLOWER * fastest))
    return {
        name: max(2, min(wanted, int(seconds / sampler.sample_seconds)))
        for name, sampler in samplers.items()
    }
