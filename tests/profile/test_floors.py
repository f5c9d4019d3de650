"""Floors: a case's work over what a machine was measured to do."""

import pytest

from flashbench.operations import parse_case
from flashbench.profile.floors import floors
from flashbench.runfile import Ceilings

CEILINGS = Ceilings(
    device="cuda",
    name="NVIDIA H200",
    threads=0,
    measured="",
    flops={"bf16": 800e12},
    bytes_per_second=4e12,
    cached_bytes_per_second=6e12,
    cache_bytes=60_000_000,
    exponentials=4e12,
    launch_seconds={"gpu_warm": 1.5e-6, "gpu_cold": 3e-6},
)


def seconds(case: str, metric: str = "gpu_warm", ceilings: Ceilings = CEILINGS) -> dict[str, float]:
    """Each floor's time."""
    return {floor.name: floor.seconds for floor in floors(parse_case(case), ceilings, metric)}


def test_each_floor_is_work_over_rate() -> None:
    """4 D operations and one exponential a pair, q, k, v and the output once, one launch."""
    found = seconds("b1-h16-q4096-d128-bf16-full-cuda")
    pairs = 16 * 4096**2
    assert found["arithmetic"] == pytest.approx(4 * 128 * pairs / 800e12)
    assert found["exponentials"] == pytest.approx(pairs / 4e12)
    assert found["bytes"] == pytest.approx(4 * 16 * 4096 * 128 * 2 / 4e12)
    assert found["launch"] == 1.5e-6
    assert list(found) == ["arithmetic", "exponentials", "bytes", "launch"]


def test_a_mask_halves_the_work() -> None:
    """Masked pairs are neither multiplied nor exponentiated; all bytes are read."""
    full, causal = (seconds(f"b1-h16-q4096-d128-bf16-{mask}-cuda") for mask in ("full", "causal"))
    assert causal["arithmetic"] / full["arithmetic"] == pytest.approx(0.5, rel=1e-3)
    assert causal["exponentials"] / full["exponentials"] == pytest.approx(0.5, rel=1e-3)
    assert causal["bytes"] == full["bytes"]


def test_what_the_cache_holds_comes_from_there() -> None:
    """Warm and small enough: by the rate of the cache; cold, or large, by that of the memory."""
    small = "b1-h8-q512-d64-bf16-full-cuda"
    size = 4 * 8 * 512 * 64 * 2
    assert seconds(small)["bytes"] == pytest.approx(size / 6e12)
    assert seconds(small, "gpu_cold")["bytes"] == pytest.approx(size / 4e12)
    assert seconds(small, "gpu_cold")["launch"] == 3e-6


def test_what_was_not_measured_has_no_floor() -> None:
    """Another dtype, another metric, no exponentials: those floors are left out, none is 0."""
    plain = Ceilings(
        device="cuda", name="", threads=0, measured="", flops={}, bytes_per_second=4e12
    )
    assert list(seconds("b1-h8-q512-d64-fp16-full-cuda", ceilings=plain)) == ["bytes"]
