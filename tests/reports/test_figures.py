"""The data of figures: ticks, families of lengths, drawn values."""

import math

from hypothesis import given
from hypothesis import strategies as st

from flashbench.case import GRID, MODELS, Case, Shape, grid
from flashbench.reports.figure import Axis, linear_ends, log_ends
from flashbench.reports.times import families

NUMBERS = st.lists(st.floats(1e-9, 1e12), min_size=1, max_size=20)


@given(NUMBERS)
def test_ticks_lie_on_the_axis(numbers: list[float]) -> None:
    """Few, ascending, inside the ends, which hold every number."""
    for scale, ends in (("log", log_ends(numbers)), ("linear", linear_ends(numbers))):
        assert ends[0] < min(numbers) <= max(numbers) < ends[1]
        ticks = [number for number, _ in Axis("", scale, ends).ticks]  # type: ignore[arg-type]
        assert len(ticks) <= 8
        assert ticks == sorted(set(ticks))
        assert all(ends[0] * 0.999 - 1 <= tick <= ends[1] * 1.001 for tick in ticks)
        assert all(map(math.isfinite, ticks))


def test_families_differ_in_length_alone_where_they_can() -> None:
    """Four lengths of one shape are a family; others of one head dim stand together; each case is
    in one at most."""
    lengths = (256, 512, 1024, 2048)
    strict = [Case(Shape(1, 8, 8, n, n, 64), "fp16", False, "cpu") for n in lengths]
    loose = [Case(Shape(4096 // n, 8, 8, n, n, 128), "fp16", False, "cpu") for n in lengths]
    found = dict(families([*loose, *strict]))
    assert found == {"fp16, full, d64, b1 h8": strict, "fp16, full, d128": loose}
    for shapes in (GRID, MODELS):
        groups = families(grid(shapes, ("fp16", "bf16"), (False, True), "cuda"))
        members = [case for _, cases in groups for case in cases]
        assert len(members) == len(set(members))
        for _, cases in groups:
            keys = [case.shape.k_len for case in cases]
            assert keys == sorted(set(keys))
            assert len(keys) > 1
            assert len({(c.dtype, c.mask, c.shape.head_dim) for c in cases}) == 1
