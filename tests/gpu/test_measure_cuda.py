"""The GPU's clocks and checks, on a real GPU."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

from flashbench import operations
from flashbench.candidates import Loaded, baselines, load
from flashbench.case import Case
from flashbench.measuring.clock import MetricUnavailableError
from flashbench.measuring.environment import device_state, environment
from flashbench.measuring.inspect import inspect_case
from flashbench.measuring.measurement import MeasuringOptions, make_clock, measure_case
from flashbench.operations.attention.operation import attention_case
from flashbench.operations.attention.shapes import parse_shape
from flashbench.runfile import Candidate, Result

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")

CASE = attention_case(parse_shape("1,8,512,64"), "fp16", False, "cuda")


@pytest.fixture(scope="module")
def clock() -> Iterator[object]:
    from flashbench.measuring.clock_cuda import CudaClock

    return CudaClock(100e-6)


def named(name: str, function: Callable[..., Tensor]) -> Loaded:
    return Loaded(Candidate(name=name, spec=f"test:{name}"), function)


def measured(*candidates: Loaded, case: Case = CASE) -> list[Result]:
    default = load(Candidate(name="sdpa", spec="sdpa", baseline=True))[0]
    clock = make_clock("cuda", 100e-6)
    return measure_case(case, [default, *candidates], clock, MeasuringOptions(samples=16, seed=1))


def median(result: Result, metric: str) -> float:
    seconds = next(t.seconds for t in result.timings if t.metric == metric)
    return sorted(seconds)[len(seconds) // 2]


def test_all_metrics_of_every_backend() -> None:
    """Each backend that takes the case has all four metrics; the others say why they do not."""
    backends = [load(candidate)[0] for candidate in baselines("cuda", "all")[1:]]
    for result in measured(*backends):
        if result.status == "unsupported":
            assert result.reason
            continue
        assert result.status == "ok", result.reason
        assert [t.metric for t in result.timings] == ["wall", "gpu_warm", "gpu_cold", "graph"]
        for timing in result.timings:
            assert len(timing.seconds) == len(timing.block) == 16
            assert all(1e-7 < seconds < 1 for seconds in timing.seconds)


@pytest.mark.parametrize("name", ["attention-backward", "attention-forward-backward"])
def test_gradients_have_all_metrics(name: str) -> None:
    """Gradients of SDPA, of its backends and of ours are right in all metrics; a graph holds the
    backward's kernels alone, unless the forward is part of the operation."""
    operation = operations.named(name)
    case = operation.case(CASE.sizes, "fp16", "cuda", {"mask": "causal"})
    wanted = [*baselines("cuda", "auto", name), Candidate(name="flashbench", spec="flashbench")]
    loaded = [load(candidate, operation=name)[0] for candidate in wanted]
    clock = make_clock("cuda", 100e-6)
    found = measure_case(case, loaded, clock, MeasuringOptions(samples=16, seed=1))
    assert {result.status for result in found} <= {"ok", "unsupported"}
    assert found[0].status == "ok", found[0].reason
    for result in found:
        if result.status == "unsupported":  # a backend that this GPU or shape does not have
            assert result.candidate.startswith("sdpa:")
            continue
        assert [t.metric for t in result.timings] == ["wall", "gpu_warm", "gpu_cold", "graph"]
        assert not result.reason
        assert 0.3 < median(result, "graph") / median(result, "gpu_warm") < 1.3


def test_metrics_agree_with_each_other() -> None:
    """Wall time is no less than device time, nor cold less than warm, within 20 %."""
    result = measured()[0]
    warm = median(result, "gpu_warm")
    assert median(result, "wall") > 0.8 * warm
    assert median(result, "gpu_cold") > 0.8 * warm
    assert 0.5 * warm < median(result, "graph") < 1.2 * warm


def test_spin_lasts_about_as_long_as_asked(clock: object) -> None:
    """The calibrated spin kernel keeps the device busy within a factor of two."""
    from flashbench.measuring.clock_cuda import CudaClock

    assert isinstance(clock, CudaClock)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    clock.spin(5e-3)
    end.record()
    torch.cuda.synchronize()
    assert 2.5 < begin.elapsed_time(end) < 10


def test_host_delay_stays_out_of_device_time() -> None:
    """A candidate whose host side is slow has the device time of one whose host side is not."""
    import time

    def slow_host(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
        time.sleep(200e-6)
        return sdpa(q, k, v, **keywords)

    plain, slow = measured(named("slow", slow_host))
    assert slow.status == "ok", slow.reason
    assert median(slow, "wall") > 200e-6
    assert median(slow, "gpu_warm") < 1.3 * median(plain, "gpu_warm")
    assert median(slow, "graph") < 1.3 * median(plain, "graph")


def test_call_that_waits_has_wall_time_alone() -> None:
    """A call that synchronizes cannot be captured or hidden: those metrics are absent, said so."""

    def waits(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
        out = sdpa(q, k, v, **keywords)
        torch.cuda.synchronize()
        return out

    _, result = measured(named("waits", waits))
    assert result.status == "ok", result.reason
    assert [timing.metric for timing in result.timings] == ["wall"]
    assert "no graph" in result.reason
    assert "no gpu_warm" in result.reason


def test_unavailable_metric_is_no_error(clock: object) -> None:
    """After a failed capture the device, its random numbers too, and other captures still work."""
    from flashbench.measuring.clock_cuda import CudaClock

    assert isinstance(clock, CudaClock)
    q = torch.ones(1, 1, 64, 64, device="cuda", dtype=torch.float16)

    def reads_back() -> Tensor:
        float(q.sum())
        return q * 2

    with pytest.raises(MetricUnavailableError):
        clock.sampler("graph", reads_back)
    assert torch.randn(8, device="cuda").std() > 0
    assert clock.sampler("graph", lambda: q * 2).block(2)


def test_work_on_a_side_stream_is_found() -> None:
    """Work that the current stream does not order is wrong, not fast."""
    side = torch.cuda.Stream()

    def unordered(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
        with torch.cuda.stream(side):
            torch.cuda._sleep(2_000_000)  # late by a millisecond, as on a busy GPU
            return sdpa(q, k, v, **keywords)

    def joined(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            out = sdpa(q, k, v, **keywords)
        torch.cuda.current_stream().wait_stream(side)
        return out

    _, bad, good = measured(named("unordered", unordered), named("joined", joined))
    assert bad.status == "wrong"
    assert "stream" in bad.reason
    assert good.status == "ok", good.reason


def test_cached_and_stale_outputs_are_found() -> None:
    """The cheats of the CPU's tests are found on the GPU too."""
    cache: dict[int, Tensor] = {}

    def cached(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
        if q.data_ptr() not in cache:
            cache[q.data_ptr()] = sdpa(q, k, v, **keywords)
        return cache[q.data_ptr()].clone()

    def stale(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
        return torch.empty_like(q)

    _, first, second = measured(named("cached", cached), named("stale", stale))
    assert (first.status, second.status) == ("wrong", "wrong")
    assert "cached" in first.reason
    assert "NaN or Inf" in second.reason


def test_out_of_memory_is_recorded_and_survived() -> None:
    """A failed allocation costs the candidate its case and others nothing."""

    def greedy(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
        return torch.empty(1 << 46, dtype=torch.uint8, device="cuda")

    plain, result = measured(named("greedy", greedy))
    assert result.status == "out_of_memory"
    assert plain.status == "ok"


def test_memory_and_kernels_of_a_call() -> None:
    """A call's peak holds its output, and its kernels have names."""
    default = load(Candidate(name="sdpa", spec="sdpa", baseline=True))[0]
    found = inspect_case(CASE, [default], 1, lambda candidate, doing: None)["sdpa"]
    assert found.peak_memory_bytes is not None
    assert found.peak_memory_bytes >= 8 * 512 * 64 * 2
    assert found.kernels


def test_the_machine_is_named() -> None:
    """GPU, driver and CUDA are known; clocks as far as the machine says."""
    known = environment("cuda")
    assert known.gpu
    assert known.driver
    assert known.cuda
    state = device_state("cuda")
    assert state.temperature_celsius is None or 0 < state.temperature_celsius < 120
