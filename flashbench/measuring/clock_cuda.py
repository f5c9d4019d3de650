"""GPU clocks: events behind a spin kernel, with warm and cold L2; graph replay; wall time.

Device times are taken behind a kernel that spins until the host has queued everything, so a slow
host leaves no gaps in the timed work. `Event.elapsed_time` is a float32 of milliseconds: only
neighbouring events are subtracted, to stay within its precision.
"""

import math
from collections.abc import Callable
from functools import partial
from time import perf_counter

import torch

from flashbench.measuring.clock import (
    Call,
    MetricUnavailableError,
    Output,
    Sampler,
    no_garbage_collection,
)
from flashbench.metric import metrics_of
from flashbench.sample_counts import MAX_METRIC_SECONDS

# Operations queued behind one spin kernel; the driver's queue holds about a thousand.
_MAX_QUEUED_CALLS = 128
_MAX_CALLS_A_SAMPLE = 64
_SPIN_TRIES = 5
# A graph holds calls for at least this long, which keeps its launch cost below one percent.
_MIN_GRAPH_SECONDS = 200e-6
# A wall-clock sample ends with one synchronization, whose own cost must be negligible.
_MIN_WALL_SECONDS = 1e-3
_WARM_UP_CALLS = 3

EventPair = tuple[torch.cuda.Event, torch.cuda.Event]


class CudaClock:
    """Metrics `wall`, `gpu_warm`, `gpu_cold`, `graph` on the current device and stream."""

    metrics = metrics_of("cuda")
    max_metric_seconds = MAX_METRIC_SECONDS["cuda"]

    def __init__(self, min_sample_seconds: float) -> None:
        self.min_sample_seconds = min_sample_seconds
        cache = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
        self._flush = torch.empty(max(2 * cache, 1 << 20), dtype=torch.uint8, device="cuda")
        self._cycles_a_second = self._calibrate_spin()

    def sampler(self, metric: str, call: Call) -> Sampler:
        kinds: dict[str, Callable[[CudaClock, Call], Sampler]] = {
            "wall": _WallSampler,
            "gpu_warm": _WarmSampler,
            "gpu_cold": _ColdSampler,
            "graph": _GraphSampler,
        }
        return kinds[metric](self, call)

    def synchronize(self) -> None:
        torch.cuda.synchronize()

    def rest(self) -> None:
        """Return at once: threads of the host take nothing from the device."""

    def flush_l2(self) -> None:
        """Queue a write of twice the L2 cache, which evicts everything a call needs."""
        self._flush.zero_()

    def spin(self, seconds: float) -> None:
        """Queue a kernel that keeps the current stream busy for about this long."""
        torch.cuda._sleep(max(1, int(seconds * self._cycles_a_second)))

    def behind_spin(self, queue: Callable[[], list[EventPair]], host_seconds: float) -> list[float]:
        """Seconds between each pair of events that `queue` records while the device spins.

        host_seconds: approximate time of queueing. If the spin ends before the queueing, it is
        retried with a longer spin; a call that synchronizes can never be hidden.
        """
        spin_seconds = 2 * host_seconds + 100e-6
        for _ in range(_SPIN_TRIES):
            torch.cuda.synchronize()
            self.spin(spin_seconds)
            spinning = torch.cuda.Event()
            spinning.record()
            start = perf_counter()
            pairs = queue()
            queueing = perf_counter() - start
            hidden = not spinning.query()
            torch.cuda.synchronize()
            if hidden:
                return [begin.elapsed_time(end) * 1e-3 for begin, end in pairs]
            spin_seconds = 2 * max(spin_seconds, queueing)
        raise MetricUnavailableError(
            "the call waits for the device, or queues more than the driver holds: its device time "
            "cannot be separated from the host's"
        )

    def _calibrate_spin(self) -> float:
        cycles = 2_000_000
        torch.cuda._sleep(cycles)
        begin, end = _event(), _event()
        begin.record()
        torch.cuda._sleep(cycles)
        end.record()
        torch.cuda.synchronize()
        return float(cycles / (begin.elapsed_time(end) * 1e-3))


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)


def _end_capture_of_random_numbers() -> None:
    """After a failed capture torch's generator still believes it is captured, and yields no
    numbers; a successful capture resets it.
    """
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        torch.zeros(1, device="cuda")


class _Warmed:
    """A call after its warm-up, with its host time and its total time."""

    def __init__(self, clock: CudaClock, call: Call) -> None:
        self._clock = clock
        self._call = call
        for _ in range(_WARM_UP_CALLS):
            self.last: Output = call()
        torch.cuda.synchronize()
        start = perf_counter()
        for _ in range(_WARM_UP_CALLS):
            self.last = call()
        self._host_seconds = (perf_counter() - start) / _WARM_UP_CALLS
        torch.cuda.synchronize()
        self._wall_seconds = (perf_counter() - start) / _WARM_UP_CALLS

    def _calls_lasting(self, seconds: float, call_seconds: float) -> int:
        return min(_MAX_CALLS_A_SAMPLE, max(1, math.ceil(seconds / max(call_seconds, 1e-7))))

    def _queue_span(self, calls: int) -> EventPair:
        begin, end = _event(), _event()
        begin.record()
        for _ in range(calls):
            self.last = self._call()
        end.record()
        return begin, end


class _WallSampler(_Warmed):
    """Eager wall time: back-to-back calls, then one synchronization."""

    def __init__(self, clock: CudaClock, call: Call) -> None:
        super().__init__(clock, call)
        seconds = max(clock.min_sample_seconds, _MIN_WALL_SECONDS)
        self.calls = self._calls_lasting(seconds, self._wall_seconds)
        self.sample_seconds = self.calls * self._wall_seconds

    def block(self, samples: int) -> list[float]:
        with no_garbage_collection():
            self.last = self._call()
            return [self._sample() / self.calls for _ in range(samples)]

    def _sample(self) -> float:
        torch.cuda.synchronize()
        start = perf_counter()
        for _ in range(self.calls):
            self.last = self._call()
        torch.cuda.synchronize()
        return perf_counter() - start


class _WarmSampler(_Warmed):
    """Device time of back-to-back calls: the L2 cache holds what the previous call left there."""

    def __init__(self, clock: CudaClock, call: Call) -> None:
        super().__init__(clock, call)
        span = clock.behind_spin(lambda: [self._queue_span(4)], 4 * self._host_seconds)[0] / 4
        self.calls = self._calls_lasting(clock.min_sample_seconds, span)
        self.sample_seconds = self.calls * max(span, self._host_seconds)

    def block(self, samples: int) -> list[float]:
        at_once = max(1, _MAX_QUEUED_CALLS // self.calls)
        seconds: list[float] = []
        with no_garbage_collection():
            while len(seconds) < samples:
                number = min(at_once, samples - len(seconds))
                host_seconds = (number * self.calls + 1) * self._host_seconds
                seconds += self._clock.behind_spin(partial(self._queue, number), host_seconds)
        return [value / self.calls for value in seconds]

    def _queue(self, samples: int) -> list[EventPair]:
        self.last = self._call()
        return [self._queue_span(self.calls) for _ in range(samples)]


class _ColdSampler(_Warmed):
    """Device time of single calls, each after the L2 cache was overwritten. Nothing is deducted."""

    calls = 1

    def __init__(self, clock: CudaClock, call: Call) -> None:
        super().__init__(clock, call)
        self.sample_seconds = self._wall_seconds + 100e-6

    def block(self, samples: int) -> list[float]:
        seconds: list[float] = []
        with no_garbage_collection():
            while len(seconds) < samples:
                number = min(_MAX_QUEUED_CALLS // 2, samples - len(seconds))
                host_seconds = number * (self._host_seconds + 20e-6)
                seconds += self._clock.behind_spin(partial(self._queue, number), host_seconds)
        return seconds

    def _queue(self, samples: int) -> list[EventPair]:
        pairs = []
        for _ in range(samples):
            self._clock.flush_l2()
            pairs.append(self._queue_span(1))
        return pairs


class _GraphSampler(_Warmed):
    """Device time per call of one replay of a CUDA graph of several calls; warm L2."""

    def __init__(self, clock: CudaClock, call: Call) -> None:
        super().__init__(clock, call)
        self._graph = torch.cuda.CUDAGraph()
        # Capture the stream of the call before: what a call prepares may be tied to its stream.
        self._side = torch.cuda.Stream()
        self.calls = 1
        self._capture()
        span = self._replay(2)[-1]
        self.calls = self._calls_lasting(max(clock.min_sample_seconds, _MIN_GRAPH_SECONDS), span)
        if self.calls > 1:
            self._graph = torch.cuda.CUDAGraph()
            self._capture()
        self.sample_seconds = max(self.calls * span, 20e-6)

    def _capture(self) -> None:
        self._side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._side):
            self.last = self._call()  # allocates its workspace outside the capture
        torch.cuda.current_stream().wait_stream(self._side)
        torch.cuda.synchronize()
        try:
            with torch.cuda.graph(self._graph, stream=self._side):
                for _ in range(self.calls):
                    self.last = self._call()
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            torch.cuda.synchronize()
            _end_capture_of_random_numbers()
            line = str(error).strip().splitlines()[0]
            raise MetricUnavailableError(f"cannot be captured in a CUDA graph: {line}") from error

    def _replay(self, samples: int) -> list[float]:
        return self._clock.behind_spin(lambda: self._queue(samples), (samples + 1) * 20e-6)

    def _queue(self, samples: int) -> list[EventPair]:
        self._graph.replay()
        pairs = []
        for _ in range(samples):
            begin, end = _event(), _event()
            begin.record()
            self._graph.replay()
            end.record()
            pairs.append((begin, end))
        return pairs

    def block(self, samples: int) -> list[float]:
        at_once = max(1, _MAX_QUEUED_CALLS // self.calls)  # a graph takes one slot per call
        seconds: list[float] = []
        with no_garbage_collection():
            while len(seconds) < samples:
                seconds += self._replay(min(at_once, samples - len(seconds)))
        return [value / self.calls for value in seconds]
