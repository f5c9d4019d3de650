"""The roofline of a profile: measured roofs, and the point of each candidate."""

import math
from dataclasses import dataclass

from flashbench.profile.differences import memory_bytes
from flashbench.profile.model import CaseProfile, Subject


@dataclass(frozen=True, slots=True)
class Point:
    """A candidate. intensity: operations per byte moved from or to memory; ideal: per byte needed;
    rate: operations per second."""

    name: str
    intensity: float | None
    ideal: float
    rate: float


@dataclass(frozen=True, slots=True)
class Roofline:
    """flat: peak operations per second; slope: peak bytes per second."""

    dtype: str
    flat: float
    slope: float
    cached_slope: float | None
    points: list[Point]

    @property
    def ridge(self) -> float:
        """The intensity from which arithmetic is the lower roof."""
        return self.flat / self.slope

    def roof(self, intensity: float) -> float:
        """The peak operations per second at this intensity."""
        return min(self.flat, intensity * self.slope)


def roofline(profile: CaseProfile) -> Roofline | None:
    """The roofline of a profile; None without ceilings or times."""
    known = profile.ceilings
    if known is None or not known.bytes_per_second:
        return None
    flat = known.flops.get(profile.case.dtype)
    points = [point for one in profile.subjects if (point := _point(profile, one)) is not None]
    if not flat or not points:
        return None
    return Roofline(
        profile.case.dtype, flat, known.bytes_per_second, known.cached_bytes_per_second, points
    )


def text(line: Roofline) -> list[str]:
    """A line a candidate."""
    said = []
    for point in line.points:
        at = point.intensity or point.ideal
        roof = line.roof(at)
        which = "arithmetic" if at >= line.ridge else "memory"
        moved = "moved" if point.intensity else "needed"
        said.append(
            f"roofline: {point.name}: {point.rate / 1e12:.4g} TFLOP/s at {at:.4g} FLOP a byte "
            f"{moved}, {100 * point.rate / roof:.0f} % of the {which} roof "
            f"({roof / 1e12:.4g} TFLOP/s; ridge at {line.ridge:.4g})"
        )
    return said


def _point(profile: CaseProfile, subject: Subject) -> Point | None:
    took, case = subject.seconds(profile.metric), profile.case
    if subject.status == "wrong" or not took or not (case.flops and case.bytes):
        return None
    moved = sum(memory_bytes(kernel.counters) for kernel in subject.kernels)
    intensity = case.flops / moved if moved and math.isfinite(case.flops / moved) else None
    return Point(subject.candidate.name, intensity, case.flops / case.bytes, case.flops / took)
