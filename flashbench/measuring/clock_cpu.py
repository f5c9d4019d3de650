"""The CPU's clock: `time.perf_counter` around batches of calls."""

import math
from itertools import repeat
from time import perf_counter, sleep

from flashbench.measuring.clock import Call, Output, Sampler, no_garbage_collection
from flashbench.metric import metrics_of
from flashbench.sample_counts import MAX_METRIC_SECONDS

# A call counts as warm when this many in a row do not beat the best before them by 5 %.
_STEADY_CALLS = 3
_MAX_WARM_UP_SECONDS = 0.5

# OpenMP's threads spin for some milliseconds after a torch call, in case of another: a candidate
# timed right after it has fewer cores (measured: 10 % at 1,8,512,64 on two cores).
_SETTLE_SECONDS = 5e-3


class CpuClock:
    """Metric `wall`: the time a caller waits, including allocation and release of the output."""

    metrics = metrics_of("cpu")
    max_metric_seconds = MAX_METRIC_SECONDS["cpu"]

    def __init__(self, min_sample_seconds: float) -> None:
        self._min_sample_seconds = min_sample_seconds

    def sampler(self, metric: str, call: Call) -> Sampler:
        return _WallSampler(call, self._min_sample_seconds)

    def synchronize(self) -> None:
        """Calls on the CPU return when they are done."""

    def rest(self) -> None:
        sleep(_SETTLE_SECONDS)


class _WallSampler:
    def __init__(self, call: Call, min_sample_seconds: float) -> None:
        self._call = call
        self.last: Output
        taken = self._warm_up()
        self.calls = math.ceil(min_sample_seconds / taken)
        # Short calls mislead upwards, by a disturbance: a whole sample of several decides.
        while self.calls > 1 and (taken := self._batch(self.calls)) < min_sample_seconds / 2:
            self.calls = math.ceil(self.calls * min_sample_seconds / max(taken, 1e-9))
        self.sample_seconds = taken

    def _warm_up(self) -> float:
        best, spent, steady = math.inf, 0.0, 0
        while steady < _STEADY_CALLS and spent < _MAX_WARM_UP_SECONDS:
            seconds = self._batch(1)
            spent += seconds
            steady = steady + 1 if seconds > 0.95 * best else 0
            best = min(best, seconds)
        return max(best, 1e-9)

    def _batch(self, calls: int) -> float:
        call = self._call
        start = perf_counter()
        for _ in repeat(None, calls):
            out = call()
        stop = perf_counter()
        self.last = out
        return stop - start

    def block(self, samples: int) -> list[float]:
        with no_garbage_collection():
            self._batch(1)
            return [self._batch(self.calls) / self.calls for _ in range(samples)]
