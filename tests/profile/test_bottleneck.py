"""The rules, on counters of kernels that were made to be bound by one thing each.

The counters were read on an H200 (`python experiments/profile_fixtures.py FOLDER`).
"""

import pytest
from stored_profiles import counted

from flashbench.operations import parse_case
from flashbench.profile import gpu_rules
from flashbench.profile.bottleneck import find
from flashbench.profile.cpu_rules import of_call
from flashbench.profile.gpu_rules import of_kernel, stalls
from flashbench.profile.model import CaseProfile, CountedKernel, Subject, Time
from flashbench.profile.rule import BUSY, UNKNOWN, Bottleneck
from flashbench.runfile import Candidate, Ceilings

H200 = Ceilings(
    device="cuda",
    name="NVIDIA H200",
    threads=0,
    measured="2026-11-22T15:08:00+00:00",
    flops={"bf16": 800e12},
    bytes_per_second=4.2e12,
    launch_seconds={"gpu_warm": 1.45e-6},
)
CPU = Ceilings(
    device="cpu", name="box", threads=4, measured="", flops={"fp32": 1e11}, bytes_per_second=1e10
)


def bound(
    seconds: float | None, *kernels: dict[str, float], ceilings: Ceilings | None = H200
) -> Bottleneck:
    """What is said of a candidate with a time and kernels; its arithmetic takes 172 us at least."""
    time = {} if seconds is None else {"gpu_warm": Time(median=seconds, low=seconds, high=seconds)}
    subject = Subject(
        candidate=Candidate(name="mine", spec="m:f"),
        status="ok",
        times=time,
        kernels=[CountedKernel(name="k", counters=one) for one in kernels],
    )
    case = parse_case("b1-h16-q4096-d128-bf16-full-cuda")
    profile = CaseProfile(case=case, cold=False, ceilings=ceilings, subjects=[subject])
    return find(profile, subject)


BOUND = (
    ("dram", "memory"),
    ("l2", "L2 cache"),
    ("uncoalesced", "memory"),
    ("mma_sync", "tensor cores"),
    ("exp", "exponentials"),
    ("fma", "FMA pipe"),
    ("alu", "integer and logic pipe"),
    ("conflicts", "bank conflicts"),
    ("shared_memory", "shared memory"),
    ("tail", "tail"),
    ("few_blocks", "too few blocks"),
    ("latency", "memory latency"),
    ("barrier", "barriers"),
    ("nothing", "launch"),
    ("product", "tensor cores"),
)


@pytest.mark.parametrize(("number", "kernel", "name"), [(n, *b) for n, b in enumerate(BOUND)])
def test_bound_by_design(number: int, kernel: str, name: str) -> None:
    """Each kernel gets the bottleneck that it was made to have, with two numbers."""
    found = bound(None, counted("bound-2025.3")[number])
    assert found.name == name, kernel
    assert len(found.because) == 2
    assert all(any(c.isdigit() for c in part) for part in found.because)
    assert found.next


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("ours", "tensor cores"),
        ("sdpa", "tensor cores"),
        ("sdpa_flash", "latency of arithmetic"),
        ("triton", "memory latency"),
        ("decode", "memory"),
    ],
)
def test_attention(file: str, name: str) -> None:
    """Attention kernels: the bottlenecks known from other evidence (docs/lab/cuda-kernels.md)."""
    (kernel,) = counted(file)
    assert of_kernel(kernel).name == name


def test_the_longest_kernel_decides() -> None:
    """If a call has several kernels, the one with most of its time."""
    short, long = counted("bound-2025.3")[0], counted("bound-2025.3")[3]
    assert bound(1e-3, short, long).name == "tensor cores"


def test_a_launch_is_said_by_the_clock() -> None:
    """Twice the time of a call that does nothing is the launch, whatever the counters are."""
    kernel = counted("ours")[0]
    assert bound(2.9e-6, kernel).name == "launch"
    assert bound(3.0e-6, kernel).name != "launch"


def test_unknown_is_an_answer() -> None:
    """Where no unit is busy and no wait stands out, the two busiest are named."""
    idle = {"dram": 35.0, "l2": 30.0, "tensor": 40.0, "issue": 45.0, "warp_latency": 10.0}
    idle |= {"stall_long_scoreboard": 2.5, "stall_wait": 2.5, "stall_not_selected": 4.0}
    found = of_kernel(idle)
    assert found.name == UNKNOWN
    assert found.because == ("tensor cores 40 % of peak", "memory 35 % of peak")
    assert of_kernel({}).name == UNKNOWN


@pytest.mark.parametrize(("counter", "name"), [("tensor", "tensor cores"), ("dram", "memory")])
def test_what_was_not_counted_is_said(counter: str, name: str) -> None:
    """Without a deciding counter the bottleneck is unknown, and no number is made up beside it."""
    kernel = {"dram": 40.0, "l2": 85.0, "tensor": 20.0, "warp_latency": 10.0, "stall_wait": 5.0}
    if counter == "tensor":
        kernel["l2"] = 40.0
    found = of_kernel({unit: value for unit, value in kernel.items() if unit != counter})
    assert found.name == UNKNOWN
    assert f"{name}: not counted" in found.because
    assert of_kernel(kernel | {"dram": BUSY}).because[1] == "bytes moved not counted"


def test_the_limits_are_those_stated() -> None:
    """A unit bounds from 70 % of its peak on; below, what warps wait for does."""
    idle = {"dram": 10.0, "l2": 10.0, "tensor": 10.0}
    waits = idle | {"warp_latency": 10.0, "stall_barrier": 5.0, "issue": 20.0}
    assert of_kernel(waits | {"xu": BUSY}).name == "exponentials"
    assert of_kernel(waits | {"xu": BUSY - 0.1}).name == "barriers"
    busy = waits | {"issue": gpu_rules.ISSUE, "alu": 60.0}
    assert of_kernel(busy).name == "instruction issue"


def test_without_counters_the_floors_tell() -> None:
    """A time near its largest floor is bound by that; another by nothing that a clock can see."""
    assert bound(200e-6).name == "arithmetic"
    assert bound(900e-6).name == UNKNOWN
    assert bound(900e-6, ceilings=None).because == ("no ceiling is known",)
    assert bound(None).because == ("no time was measured",)


@pytest.mark.parametrize(
    ("counters", "name"),
    [
        ({"seconds": 1e-3, "task-clock": 1e-3}, "idle threads"),
        ({"seconds": 1e-3, "task-clock": 4e-3, "cache-misses": 1.2e5}, "memory"),
        ({"seconds": 1e-3, "task-clock": 4e-3, "cycles": 1e6, "instructions": 9e5}, "latency"),
        ({"seconds": 1e-3, "task-clock": 4e-3, "cycles": 1e6, "instructions": 2e6}, UNKNOWN),
        ({"seconds": 1e-3, "task-clock": 4e-3}, UNKNOWN),
        ({}, UNKNOWN),
    ],
)
def test_cpu_rules(counters: dict[str, float], name: str) -> None:
    """Made of numbers, as they are ratios: no machine of ours lets perf count its hardware."""
    unknown = Bottleneck(UNKNOWN, ())
    assert of_call(counters, CPU, unknown).name == name
    assert of_call({"cache-misses": 1e9}, None, unknown) is unknown


@pytest.mark.parametrize(
    ("busy", "name"), [(1, "idle threads"), (4, "arithmetic"), (0, "arithmetic")]
)
def test_idle_threads_come_before_a_floor(busy: int, name: str) -> None:
    """Near the ceiling of four threads, three of which wait, these are the bottleneck; without the
    counter the floor is all that is known."""
    case = parse_case("b1-h2-q256-d64-fp32-full-cpu")
    seconds = case.flops / 1e11 / 0.75
    counters = {"seconds": seconds, "task-clock": busy * seconds} if busy else {}
    subject = Subject(
        candidate=Candidate(name="mine", spec="m:f"),
        status="ok",
        times={"wall": Time(median=seconds, low=seconds, high=seconds)},
        counters=counters,
    )
    profile = CaseProfile(case=case, cold=False, ceilings=CPU, subjects=[subject])
    assert find(profile, subject).name == name


def test_stalls_are_shares_of_a_warps_time() -> None:
    """With the cycle in which it issues they add up to all of it, or nearly: each was counted in
    another replay."""
    for kernel in counted("bound-2025.3"):
        shares = [share for _, share in stalls(kernel)]
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) + 100 / kernel["warp_latency"] == pytest.approx(100, abs=3)


def test_damaged_counters_are_no_bottleneck() -> None:
    """Counters of a file may lack anything, or be 0 and negative."""
    for broken in ({"elapsed_cycles": 0.0, "active_cycles": 1.0, "waves": 0.5}, {"dram": -5.0}):
        assert of_kernel(broken).name == UNKNOWN
