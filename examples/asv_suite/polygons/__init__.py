"""Areas of polygons."""


def area(points: list[tuple[float, float]]) -> float:
    """By the shoelace formula. points: corners in order."""
    following = [*points[1:], points[0]]
    return abs(sum(x * v - u * y for (x, y), (u, v) in zip(points, following, strict=True))) / 2
