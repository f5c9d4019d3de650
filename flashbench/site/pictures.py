"""The layout of a device's pictures: speed-ups and a roofline.

Positions are percentages of the width or height, so that a picture fills its box on any screen
while its text keeps its size.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from flashbench.log_axis import LogAxis
from flashbench.site.content import Spot
from flashbench.table import digits, ratio_text


@dataclass(frozen=True, slots=True)
class Peak:
    """A GPU's peak rates. bandwidth: bytes per second; rates: FLOP/s by dtype, of dense tensor
    operations."""

    bandwidth: float
    rates: dict[str, float]


_HOPPER = {"fp16": 989.4e12, "bf16": 989.4e12}
# From NVIDIA's data sheets, for SXM if there are several versions; halved if they count sparsity.
PEAKS = {
    "H200": Peak(4.8e12, _HOPPER),
    "H100": Peak(3.35e12, _HOPPER),
    "A100": Peak(2.039e12, {"fp16": 312e12, "bf16": 312e12}),
    "L4": Peak(0.3e12, {"fp16": 121e12, "bf16": 121e12}),
}


def peak_of(processor: str) -> Peak | None:
    """The peak of a GPU by its name; None if unknown, as for any CPU."""
    words = processor.upper().replace("-", " ").split()
    return next((peak for name, peak in PEAKS.items() if name in words), None)


def speedups(spots: Sequence[Spot]) -> dict[str, Any] | None:
    """One row per case: its speed-up with the table's interval on a log axis; None without
    cases."""
    timed = [(spot, spot.speedup) for spot in spots if spot.speedup is not None]
    if not timed:
        return None
    several = len({spot.candidate for spot, _ in timed}) > 1
    values = [1.0, 0.9, 1.1, *(value for _, (value, _, _) in timed)]
    axis = LogAxis([min(values) / 1.05, max(values) * 1.05])  # an interval may be unbounded
    rows: list[dict[str, Any]] = []
    for spot, (value, least, most) in timed:
        text = f"{spot.case}, {spot.candidate}: {ratio_text(value)}"
        if least is not None and most is not None:
            text += f" [{ratio_text(least)}, {ratio_text(most)}]"
        rows.append(
            {
                "label": f"{spot.case} {spot.candidate}" if several else spot.case,
                "dtype": spot.dtype,
                "title": f"{text} {spot.verdict}",
                "x": axis(value),
                "whisker": _whisker(axis, least, most),
            }
        )
    whiskers = [row["whisker"] for row in rows]
    return {
        "rows": rows,
        "ticks": axis.ticks(),
        "dtypes": _dtypes(spots),
        "open": any(one and (one["open_low"] or one["open_high"]) for one in whiskers),
        "without": None in whiskers,
    }


def _whisker(axis: LogAxis, least: float | None, most: float | None) -> dict[str, Any] | None:
    """The position of an interval, and which of its ends are outside the picture or unbounded; None
    if both are unbounded."""
    if least is None and most is None:
        return None
    low = -math.inf if least is None else axis(least)
    high = math.inf if most is None else axis(most)
    return {
        "low": max(0, low),
        "high": min(100, high),
        "open_low": low < 0,
        "open_high": high > 100,
    }


def roofline(spots: Sequence[Spot], processor: str) -> dict[str, object] | None:
    """Throughput against arithmetic intensity (minimum bytes moved), below the device's roofs; None
    without cases, or if its peaks are unknown, because dots alone show nothing."""
    peak = peak_of(processor)
    spots = [spot for spot in spots if spot.flops and spot.bytes]
    if not spots or peak is None:
        return None
    dtypes = _dtypes(spots)
    rates = {name: peak.rates[name] for name in dtypes if name in peak.rates}
    x_values = [spot.flops / spot.bytes for spot in spots]
    y_values = [spot.flops / spot.seconds / 1e12 for spot in spots]
    highest = max([*y_values, *(rate / 1e12 for rate in rates.values())])
    x = LogAxis([min(x_values) / 2, max(x_values) * 2])
    y = LogAxis([min(y_values) / 2, highest * 2], 100, 0)
    roofs = []
    ends = min(x_values) / 2, max(x_values) * 2
    for rate in sorted(set(rates.values())):
        names = ", ".join(name for name in dtypes if rates.get(name) == rate)
        ridge = rate / peak.bandwidth
        corner = min(max(ridge, ends[0]), ends[1])
        # The slope enters the picture at its left or at its lower edge.
        start = max(ends[0], min(y_values) / 2 * 1e12 / peak.bandwidth)
        points = [start, corner, ends[1]]
        at = [(x(p), y(min(p * peak.bandwidth, rate) / 1e12)) for p in points]
        lines = [(*one, *other) for one, other in pairwise(at)]
        text = f"{names}: {digits(rate / 1e12)} TFLOP/s, {digits(peak.bandwidth / 1e12)} TB/s"
        roofs.append({"lines": lines, "y": at[-1][1], "text": text})
    note = (
        "Roofs: peaks of NVIDIA's data sheets, dense. Bytes are the fewest that have to be moved."
    )
    dots = []
    for spot, intensity, rate in zip(spots, x_values, y_values, strict=True):
        shown = {"intensity": digits(intensity), "rate": digits(rate)}
        title = f"{spot.case}, {spot.candidate}: {shown['rate']} TFLOP/s at {shown['intensity']}"
        place = {"x": x(intensity), "y": y(rate), "dtype": spot.dtype, "label": spot.case}
        dots.append({**place, **shown, "title": f"{title} FLOP a byte"})
    return {
        "x_ticks": x.ticks(),
        "y_ticks": y.ticks(),
        "roofs": roofs,
        "dots": dots,
        "dtypes": dtypes,
        "note": note,
    }


def _dtypes(spots: Sequence[Spot]) -> list[str]:
    return sorted({spot.dtype for spot in spots})
