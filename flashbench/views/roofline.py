"""The roofline as one SVG file: logarithmic axes, measured roofs, one mark per candidate."""

from html import escape

from flashbench.log_axis import LogAxis
from flashbench.profile.roofline import Roofline

_WIDTH, _HEIGHT = 760, 460
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 40, 60
_ROOM = 3  # times the flat roof, as room for names
_COLOURS = ("#0b62a8", "#b3460b", "#2f7d32", "#6a3d9a")
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#222}.grid{stroke:#ddd}.roof{stroke:#222;"
    "stroke-width:2;fill:none}.cached{stroke:#888;stroke-dasharray:6 4;fill:none}"
)


def svg(line: Roofline, title: str) -> str:
    """Draw the roofline. Names are untrusted and escaped."""
    at = [value for p in line.points for value in (p.intensity, p.ideal) if value]
    low, high = min([*at, line.ridge]) / 2, max([*at, line.ridge]) * 2
    rates = [point.rate for point in line.points]
    least = min([*rates, line.roof(low)]) / 2
    x = LogAxis([low, high], _LEFT, _WIDTH - _RIGHT)
    y = LogAxis([least / 1e12, line.flat * _ROOM / 1e12], _HEIGHT - _BOTTOM, _TOP)
    parts = [
        "<!-- flashbench roofline -->",  # marks it as ours (flashbench/revisions/own_files.py)
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
        f'<text x="{_LEFT}" y="22">{escape(title)}</text>',
        *_axes(x, y),
        *_roofs(line, low, high, x, y),
        *_marks(line, x, y),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _axes(x: LogAxis, y: LogAxis) -> list[str]:
    floor, end = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts = []
    for tick in x.ticks():
        parts.append(f'<path class="grid" d="M{tick["at"]} {_TOP}V{floor}"/>')
        parts.append(_text(tick["at"], floor + 18, str(tick["text"]), "middle"))
    for tick in y.ticks():
        parts.append(f'<path class="grid" d="M{_LEFT} {tick["at"]}H{end}"/>')
        parts.append(_text(_LEFT - 6, tick["at"], str(tick["text"]), "end", middle=True))
    middle = (_LEFT + end) / 2
    parts.append(_text(middle, _HEIGHT - 18, "FLOP a byte of device memory", "middle"))
    parts.append(_text(6, _TOP - 4, "TFLOP/s", "start"))
    return parts


def _roofs(line: Roofline, low: float, high: float, x: LogAxis, y: LogAxis) -> list[str]:
    ends = [(low, line.roof(low)), (line.ridge, line.flat), (high, line.flat)]
    places = " ".join(f"{x(at)},{y(rate / 1e12)}" for at, rate in ends)
    parts = [f'<polyline class="roof" points="{places}"/>']
    flat = f"{line.dtype} matrix product: {line.flat / 1e12:.4g} TFLOP/s"
    parts.append(_text(x(high) - 4, y(line.flat / 1e12) - 8, flat, "end"))
    slope = f"copy: {line.slope / 1e12:.3g} TB/s"
    cached = line.cached_slope or 0.0
    if cached > line.slope and (turn := line.flat / cached) > low:
        start = f"{x(low)} {y(low * cached / 1e12)}"
        parts.append(f'<path class="cached" d="M{start}L{x(turn)} {y(line.flat / 1e12)}"/>')
        slope += f"; in L2, dashed: {cached / 1e12:.3g} TB/s"
    parts.append(_text(x(high) - 4, _HEIGHT - _BOTTOM - 8, slope, "end"))
    return parts


def _marks(line: Roofline, x: LogAxis, y: LogAxis) -> list[str]:
    parts = []
    for number, point in enumerate(line.points):
        colour = _COLOURS[number % len(_COLOURS)]
        height = y(point.rate / 1e12)
        ideal = x(point.ideal)
        parts.append(
            f'<circle cx="{ideal}" cy="{height}" r="5" fill="#fff" stroke="{colour}" '
            'stroke-width="2"/>'
        )
        if point.intensity:
            at = x(point.intensity)
            parts.append(f'<circle cx="{at}" cy="{height}" r="5" fill="{colour}"/>')
        label = f"{point.name}: {point.rate / 1e12:.4g} TFLOP/s"
        row = _TOP + 18 + 18 * number
        parts.append(f'<circle cx="{_LEFT + 12}" cy="{row - 4}" r="5" fill="{colour}"/>')
        parts.append(_text(_LEFT + 24, row, label, "start"))
    row = _TOP + 18 + 18 * len(line.points)
    parts.append(_text(_LEFT + 24, row, "filled: bytes moved; open: bytes needed", "start"))
    return parts


def _text(x: object, y: object, text: str, anchor: str, *, middle: bool = False) -> str:
    shift = ' dy="4"' if middle else ""
    return f'<text x="{x}" y="{y}"{shift} text-anchor="{anchor}">{escape(text)}</text>'
