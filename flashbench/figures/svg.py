"""Figures as SVG: panels of one width that a page lays out, or a sheet with all of them."""

import math
from collections.abc import Iterable, Sequence
from html import escape

from flashbench.figures.figure import Area, Axis, Dots, Figure, Line, Mark, Panel, ReferenceLine
from flashbench.render.escape import printable

WIDTH = 372  # of a panel, in pixels: a phone has room for one, A4 for two
_HEIGHT = 200  # of a plot without rows
_TOP, _BOTTOM, _LEFT, _RIGHT = 26, 40, 52, 12
_CHARACTER = 6.2  # width, at 11 pixels
MOST_LABEL, MOST_TITLE = 24, 50  # characters
_GAP = 16

# Dark and light enough against their page, and apart for the colour-blind, who also have shapes.
LIGHT = ("#0068a8", "#b84700", "#007a58", "#93357a", "#828282", "#2b2b2b")
DARK = ("#6cc0f7", "#ff9f5f", "#42d3a3", "#e79fce", "#8f8f8f", "#ffffff")
SHAPES = ("circle", "square", "diamond", "up", "down", "cross")


def style(colours: Sequence[str], ink: str, soft: str, grid: str, page: str) -> str:
    """The rules of one colour scheme."""
    found = [
        f".panel text{{font:11px system-ui,sans-serif;fill:{ink}}}",
        f".panel .t{{font-weight:600;font-size:12px}}.panel .a{{fill:{soft}}}",
        f".panel .n{{paint-order:stroke;stroke:{page};stroke-width:3px}}",
        f".panel .g{{stroke:{grid}}}.panel .r{{stroke:{ink};stroke-dasharray:3 2}}",
        f".panel .f{{stroke:{ink};fill:none;stroke-width:1.5}}",
    ]
    for number, colour in enumerate(colours):
        found.append(f".panel .s{number}{{stroke:{colour};fill:{colour}}}")
        found.append(f".panel .o{number}{{stroke:{colour};fill:{page}}}")
        found.append(f".panel .l{number}{{stroke:{colour};fill:none}}")
        found.append(f".panel .b{number}{{fill:{colour};fill-opacity:.35;stroke:none}}")
    return "".join(found)


LIGHT_STYLE = style(LIGHT, "#1b1f24", "#57606a", "#e2e6ea", "#fff")
_NIGHT = "#0d1117"
DARK_STYLE = style(DARK, "#e6edf3", "#9da7b1", "#2d343c", _NIGHT)


def panel_svg(panel: Panel) -> str:
    """One panel with its title, for a page that has the styles."""
    body, height = _panel(panel)
    summary = _text_of(f"{panel.title}. {panel.summary}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="panel" role="img" aria-label="{summary}" '
        f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">{body}</svg>'
    )


def sheet(figure: Figure, columns: int = 2, *, dark: bool = False) -> str:
    """A file of its own: title, legend and panels, on white. dark: on black where a screen prefers
    that, which a picture for paper must not."""
    drawn = [_panel(panel) for panel in figure.drawn]
    columns = max(1, min(columns, len(drawn)))
    width = columns * (WIDTH + _GAP)
    keys, top = _legend(figure.series, width)
    night = f"{DARK_STYLE}rect{{fill:{_NIGHT}}}"
    at_night = f"@media screen and (prefers-color-scheme:dark){{{night}}}" * dark
    heights = [top] * columns
    places = []
    for _, height in drawn:
        column = heights.index(min(heights))
        places.append((column * (WIDTH + _GAP), heights[column]))
        heights[column] += height + _GAP
    height = max(heights) + 4
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" class="panel" role="img" '
        f'viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        f"<title>{_text_of(figure.title)}</title><desc>{_text_of(figure.caption)}</desc>",
        f"<style>{LIGHT_STYLE}{at_night}</style>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text class="t" x="8" y="17">{_text_of(figure.title)}</text>',
        keys,
    ]
    for (body, _), (x, y) in zip(drawn, places, strict=True):
        parts.append(f'<g transform="translate({x} {y})">{body}</g>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _legend(series: Sequence[str], width: int) -> tuple[str, int]:
    """Names of the series behind their marks, below the title; and where the panels begin."""
    parts, x, y = [], 8.0, 34
    for number, name in enumerate(series):
        text = shortened(printable(name), MOST_LABEL)
        taken = 28 + len(text) * 6.6
        if x + taken > width and x > 8:
            x, y = 8.0, y + 16
        parts.append(_shape(number, x + 5, y - 4, 4, filled=True))
        parts.append(f'<text x="{x + 14:.0f}" y="{y}">{_text_of(text)}</text>')
        x += taken
    return "".join(parts), y + 10


def key_svg(series: int) -> str:
    """The mark of a series, for the legend of a page."""
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" class="panel key" aria-hidden="true" '
        f'width="14" height="14">{_shape(series, 7, 7, 4, filled=True)}</svg>'
    )


class _Scale:
    """From numbers of an axis to pixels."""

    def __init__(self, axis: Axis, start: float, end: float) -> None:
        self._log = axis.scale == "log"
        self._low, self._high = (self._of(one) for one in axis.ends)
        self._start, self._end = start, end

    def _of(self, number: float) -> float:
        return math.log(max(number, 1e-300)) if self._log else number

    def __call__(self, number: float) -> float:
        part = (self._of(number) - self._low) / ((self._high - self._low) or 1.0)
        return round(self._start + part * (self._end - self._start), 1)

    def inside(self, number: float) -> float:
        low, high = sorted((self._start, self._end))
        return min(max(self(number), low), high)


def _panel(panel: Panel) -> tuple[str, int]:
    rows = panel.y.scale == "rows"
    left = _LEFT
    if rows:
        longest = max((len(shortened(name, MOST_LABEL)) for name in panel.y.rows), default=0)
        left = round(12 + longest * _CHARACTER)
    plot = max(panel.row * len(panel.y.rows), 30) if rows else _HEIGHT
    height = _TOP + plot + _BOTTOM
    x = _Scale(panel.x, left, WIDTH - _RIGHT)
    y = _Scale(panel.y, _TOP, _TOP + plot) if rows else _Scale(panel.y, _TOP + plot, _TOP)
    parts = [
        f'<text class="t" x="4" y="14">{_text_of(shortened(panel.title, MOST_TITLE))}</text>',
        *_axes(panel, x, y, left, plot),
        *(part for mark in panel.marks for part in _drawn(mark, x, y, plot)),
        *(_label(mark, x, y) for mark in panel.marks if isinstance(mark, Line) and mark.label),
    ]
    return "".join(parts), height


def _axes(panel: Panel, x: _Scale, y: _Scale, left: int, plot: int) -> Iterable[str]:
    floor, end = _TOP + plot, WIDTH - _RIGHT
    last = -math.inf
    for number, text in panel.x.ticks:
        at = x(number)
        yield f'<path class="g" d="M{at} {_TOP}V{floor}"/>'
        half = len(text) * _CHARACTER / 2
        if at - half > last:
            yield f'<text class="a" x="{at}" y="{floor + 15}" text-anchor="middle">{text}</text>'
            last = at + half + 6
    for number, text in panel.y.ticks:
        at = y(number)
        shown = _text_of(shortened(text, MOST_LABEL))
        yield f'<path class="g" d="M{left} {at}H{end}"/>'
        yield f'<text class="a" x="{left - 6}" y="{at + 4}" text-anchor="end">{shown}</text>'
    label = _text_of(panel.x.named)
    middle = min((left + end) / 2, WIDTH - len(panel.x.named) * _CHARACTER / 2)
    yield f'<text class="a" x="{middle}" y="{floor + 32}" text-anchor="middle">{label}</text>'
    if panel.y.label:
        label = _text_of(panel.y.named)
        taken = 7.2 * min(len(panel.title), MOST_TITLE) + _CHARACTER * len(panel.y.named)
        roofed = any(isinstance(mark, Line) and mark.label for mark in panel.marks)
        if taken < WIDTH - 20 and not roofed:  # beside the title, else below it, far from a roof's
            yield f'<text class="a" x="{end}" y="14" text-anchor="end">{label}</text>'
        else:
            yield f'<text class="a n" x="{left + 4}" y="{_TOP + 10}">{label}</text>'


def _drawn(mark: Mark, x: _Scale, y: _Scale, plot: int) -> Iterable[str]:
    if isinstance(mark, ReferenceLine):
        yield f'<path class="r" d="M{x(mark.at)} {_TOP}V{_TOP + plot}"/>'
    elif isinstance(mark, Line):
        places = " ".join(
            f"{x.inside(a)},{y.inside(b)}" for a, b in zip(mark.x, mark.y, strict=True)
        )
        kind = "f" if mark.series is None else f"l{mark.series % len(LIGHT)}"
        dashes = ' stroke-dasharray="5 3"' if mark.dashed else ""
        yield f'<polyline class="{kind}" points="{places}"{dashes}/>'
    elif isinstance(mark, Area):
        above = [f"{x.inside(a)},{y(b)}" for a, b in zip(mark.x, mark.high, strict=True)]
        below = [f"{x.inside(a)},{y(b)}" for a, b in zip(mark.x, mark.low, strict=True)]
        points = " ".join([*above, *reversed(below)])
        yield f'<polygon class="b{mark.series % len(LIGHT)}" points="{points}"/>'
    else:
        yield from _points(mark, x, y)


def _label(mark: Line, x: _Scale, y: _Scale) -> str:
    at, above = x.inside(mark.x[-1]), y.inside(mark.y[-1]) - 5
    text = _text_of(mark.label)
    return f'<text class="a n" x="{at}" y="{above:.1f}" text-anchor="end">{text}</text>'


def _points(mark: Dots, x: _Scale, y: _Scale) -> Iterable[str]:
    number = mark.series % len(LIGHT)
    for place, (a, b) in enumerate(zip(mark.x, mark.y, strict=True)):
        at = x.inside(a), y.inside(b)
        parts = []
        low, high = (mark.low[place], mark.high[place]) if mark.low else (None, None)
        if low is not None or high is not None:  # else a line across the panel
            if mark.along == "x":
                ends = (x.inside(low or 0.0), x.inside(math.inf if high is None else high))
                parts.append(f'<path class="l{number}" d="M{ends[0]} {at[1]}H{ends[1]}"/>')
            else:
                ends = (y.inside(low or 0.0), y.inside(math.inf if high is None else high))
                parts.append(f'<path class="l{number}" d="M{at[0]} {ends[0]}V{ends[1]}"/>')
        size = 1.2 if mark.small else 3.2
        parts.append(_shape(mark.series, *at, size, filled=mark.filled))
        title = f"<title>{_text_of(mark.titles[place])}</title>" if mark.titles else ""
        yield f"<g>{title}{''.join(parts)}</g>" if title else "".join(parts)


def _shape(series: int, x: float, y: float, size: float, *, filled: bool) -> str:
    number = series % len(LIGHT)
    kind = f'class="{"s" if filled else "o"}{number}"'
    shape = SHAPES[series % len(SHAPES)]
    s = size
    if shape == "circle" or size < 2:
        return f'<circle {kind} cx="{x}" cy="{y}" r="{size}"/>'
    t = round(1.3 * s, 1)
    paths = {
        "square": f"M{x - s} {y - s}h{2 * s}v{2 * s}h{-2 * s}z",
        "diamond": f"M{x} {y - t}l{t} {t}l{-t} {t}l{-t} {-t}z",
        "up": f"M{x} {y - t}l{t} {2 * s}h{-2 * t}z",
        "down": f"M{x} {y + t}l{t} {-2 * s}h{-2 * t}z",
        "cross": f"M{x - s} {y - s}l{2 * s} {2 * s}M{x - s} {y + s}l{2 * s} {-2 * s}",
    }
    return f'<path {kind} stroke-width="1.2" d="{paths[shape]}"/>'


def shortened(text: str, most: int) -> str:
    """At most so many characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _text_of(text: str) -> str:
    return escape(printable(text))
