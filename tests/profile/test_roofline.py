"""The roofline: which roof a candidate is under, and how far below it."""

from pathlib import Path

import msgspec
import pytest

from flashbench.figures.roofline import profiled
from flashbench.figures.svg import sheet
from flashbench.profile import model
from flashbench.profile.roofline import Roofline, roofline, text

GPU = Path(__file__).parents[1] / "golden" / "profile_gpu.json"


@pytest.fixture
def profile() -> model.CaseProfile:
    return model.read(GPU)


def drawn(profile: model.CaseProfile) -> Roofline:
    found = roofline(profile)
    assert found is not None
    return found


def test_roofs_meet_at_the_ridge(profile: model.CaseProfile) -> None:
    """Left of it memory is the lower roof, right of it arithmetic."""
    line = drawn(profile)
    assert line.roof(line.ridge) == pytest.approx(line.flat)
    assert line.roof(line.ridge / 2) == pytest.approx(line.flat / 2)
    assert line.roof(2 * line.ridge) == line.flat


def test_rates_and_intensities(profile: model.CaseProfile) -> None:
    """Operations over the clock's time, over the bytes that ncu saw and over those needed."""
    (first, _) = drawn(profile).points
    case, subject = profile.case, profile.subjects[0]
    assert first.rate == pytest.approx(case.flops / subject.times["gpu_warm"].median)
    moved = subject.kernels[0].counters["dram_read"] + subject.kernels[0].counters["dram_write"]
    assert first.intensity == pytest.approx(case.flops / moved)
    assert first.ideal == pytest.approx(case.flops / case.bytes)


def test_a_kernel_that_moves_much_is_under_the_memory_roof(profile: model.CaseProfile) -> None:
    """The roof is that of the bytes moved, not of those needed."""
    assert "of the arithmetic roof" in text(drawn(profile))[0]
    profile.subjects[0].kernels[0].counters["dram_read"] *= 100
    assert "of the memory roof" in text(drawn(profile))[0]


def test_without_ceilings_there_is_no_picture(profile: model.CaseProfile) -> None:
    """Nor for a dtype that was not measured."""
    ceilings = profile.ceilings
    assert ceilings is not None
    profile.ceilings = msgspec.structs.replace(ceilings, flops={})
    assert roofline(profile) is None
    profile.ceilings = None
    assert roofline(profile) is None


def test_the_roof_of_the_cache_is_drawn_where_it_is_higher(profile: model.CaseProfile) -> None:
    """A copy in L2 that is no faster than one in memory has no line of its own."""
    ceilings = profile.ceilings
    assert ceilings is not None
    for rate, lines in ((0.9, 0), (1.5, 1)):
        cached = rate * ceilings.bytes_per_second
        profile.ceilings = msgspec.structs.replace(ceilings, cached_bytes_per_second=cached)
        assert sheet(profiled(drawn(profile), "case")).count('stroke-dasharray="5 3"/>') == lines
