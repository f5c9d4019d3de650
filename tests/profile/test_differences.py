"""What changed between two profiles, in words."""

import pytest

from flashbench.profile.differences import differences, times
from flashbench.profile.model import CountedKernel, Subject, Time
from flashbench.runfile import Candidate


def subject(seconds: float, *kernels: dict[str, float]) -> Subject:
    return Subject(
        candidate=Candidate(name="mine", spec="m:f"),
        status="ok",
        times={"gpu_warm": Time(median=seconds, low=seconds, high=seconds)},
        kernels=[CountedKernel(name="k", counters=one) for one in kernels],
    )


KERNEL = {
    "duration": 1e-4,
    "conflicts": 1e6,
    "instructions": 1e7,
    "dram_read": 1e8,
    "registers": 64,
}


@pytest.mark.parametrize(
    ("seconds", "change", "said"),
    [
        (1e-4, {}, "same time"),
        (1.02e-4, {"conflicts": 2e6}, "same time, twice the bank conflicts"),
        (2e-4, {"instructions": 4e6}, "2.00 times the time, 0.40 times the instructions"),
        (0.5e-4, {"dram_read": 5e7, "dram_write": 0.0}, "0.50 times the time, half the bytes from "
         "and to memory"),
        (4e-8, {}, "0.0004 times the time"),
        (1e-4, {"registers": 128, "conflicts": 1.2e6}, "same time, twice the registers"),
        (1e-4, {"conflicts": 0.0}, "same time, no more bank conflicts"),
    ],
)  # fmt: skip
def test_what_changed(seconds: float, change: dict[str, float], said: str) -> None:
    """The time first, then counters that differ by a quarter or more, largest change first."""
    assert differences(subject(1e-4, KERNEL), subject(seconds, KERNEL | change), "gpu_warm") == said


def test_what_was_not_there_before() -> None:
    """No ratio has a 0 below it."""
    old, new = subject(1e-4, KERNEL | {"conflicts": 0.0}), subject(1e-4, KERNEL)
    assert differences(old, new, "gpu_warm") == "same time, now has bank conflicts"


def test_amounts_add_up_over_kernels() -> None:
    """Two kernels against one: twice of what adds up, and the registers of the longest."""
    short = KERNEL | {"duration": 5e-5, "registers": 255}
    said = differences(subject(1e-4, KERNEL), subject(1e-4, KERNEL, short), "gpu_warm")
    assert "twice the kernels" in said
    assert "twice the bank conflicts" in said
    assert "registers" not in said


def test_little_of_something_is_noise() -> None:
    """Twice a few conflicts is nothing to tell."""
    old, new = (subject(1e-4, KERNEL | {"conflicts": some}) for some in (30.0, 60.0))
    assert differences(old, new, "gpu_warm") == "same time"


def test_nothing_to_compare() -> None:
    """Without times or counters there are no words."""
    assert differences(subject(1e-4), subject(1e-4), "wall") == ""


@pytest.mark.parametrize(
    ("ratio", "said"),
    [(2.04, "twice"), (0.49, "half"), (3.14, "3.1 times"), (0.094, "0.094 times")],
)
def test_ratios_in_words(ratio: float, said: str) -> None:
    """As one says them."""
    assert times(ratio) == said
