"""Benchmarks of asv: times over a parameter, memory, and a number to track."""

import math

import polygons


def circle(corners: int) -> list[tuple[float, float]]:
    turns = [2 * math.pi * n / corners for n in range(corners)]
    return [(math.cos(turn), math.sin(turn)) for turn in turns]


class Area:
    params = [16, 1024]
    param_names = ["corners"]

    def setup(self, corners: int) -> None:
        self.points = circle(corners)

    def time_area(self, corners: int) -> None:
        polygons.area(self.points)

    def peakmem_area(self, corners: int) -> None:
        polygons.area(self.points)


def track_error() -> float:
    """How far the area of a circle with 1000 corners is off."""
    return math.pi - polygons.area(circle(1000))


track_error.unit = "area"
