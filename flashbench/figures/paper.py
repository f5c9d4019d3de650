"""Figures on paper: matplotlib draws the same panels as svg.py, as PDF or PNG."""

import io
import math
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from flashbench.errors import InvalidInputError
from flashbench.figures.figure import Area, Axis, Dots, Figure, Line, Mark, Panel, ReferenceLine
from flashbench.figures.svg import LIGHT, MOST_LABEL, MOST_TITLE, shortened
from flashbench.render.escape import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Sheet

_MARKERS = ("o", "s", "D", "^", "v", "x")
_PANEL, _PLOT, _PIXEL = 3.5, 1.7, 1 / 110  # inches: width of a panel, height of a plot
_TOP, _BOTTOM, _LEFT, _RIGHT = 0.26, 0.42, 0.55, 0.12  # of a panel around its plot
_CHARACTER = 0.053  # inches, at 6 points
_TITLE, _KEY = 0.3, 0.16  # of a sheet: above its panels, and of a line of its legend
_DPI, _SCREEN_DPI = 200, 110


def require(what: str = "PDF and PNG") -> None:
    """Require matplotlib; InvalidInputError names what to install. what: needs it."""
    try:
        import matplotlib  # noqa: F401 (only whether it is there)
    except ImportError:
        raise InvalidInputError(
            f"{what} need matplotlib: pip install 'flashbench[figures]'; `flashbench report "
            "--format svg` needs nothing"
        ) from None


def draw(figure: Figure, form: Literal["pdf", "png"]) -> bytes:
    """The figure as a file."""
    metadata = {"CreationDate": None} if form == "pdf" else {"Software": None}
    out = io.BytesIO()
    sheet(figure).savefig(out, format=form, dpi=_DPI, metadata=metadata)
    return out.getvalue()


def sheet(figure: Figure, columns: int = 2) -> "Sheet":
    """The figure as one of matplotlib's, which a notebook shows without pyplot."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Blank

    class NewSheet(Blank):
        def _repr_png_(self) -> bytes:
            out = io.BytesIO()
            self.savefig(out, format="png", dpi=_SCREEN_DPI)
            return out.getvalue()

    panels = figure.drawn
    columns = max(1, min(columns, len(panels)))
    lines = [panels[i : i + columns] for i in range(0, len(panels), columns)]
    heights = [max(map(_height, line)) for line in lines]
    lefts = [max(map(_left, panels[column::columns])) for column in range(columns)]
    keys = 2 * columns  # in a line of the legend
    width, below = columns * _PANEL, 0.16 + _KEY * math.ceil(len(figure.series) / keys)
    whole = _TITLE + sum(heights) + below
    made = NewSheet(figsize=(width, whole))
    FigureCanvasAgg(made)
    top = whole - _TITLE
    for line, height in zip(lines, heights, strict=True):
        for place, panel in enumerate(line):
            left, plot = lefts[place], _height(panel) - _TOP - _BOTTOM
            x, y = (place * _PANEL + left) / width, (top - _TOP - plot) / whole
            size = (_PANEL - left - _RIGHT) / width, plot / whole
            _panel(made.add_axes((x, y, *size)), panel)
        top -= height
    made.suptitle(_plain(figure.title), fontsize=10, y=1 - 0.1 / whole, va="top")
    handles = [_key(series, name) for series, name in enumerate(figure.series)]
    made.legend(handles=handles, loc="lower center", ncols=keys, fontsize=7, frameon=False)
    return made


def _height(panel: Panel) -> float:
    rows = len(panel.y.rows)
    return _TOP + (max(panel.row * _PIXEL * rows, 0.3) if rows else _PLOT) + _BOTTOM


def _left(panel: Panel) -> float:
    labels = (shortened(text, MOST_LABEL) for _, text in panel.y.ticks)
    return max(_LEFT, 0.15 + _CHARACTER * max(map(len, labels), default=0))


def _key(series: int, name: str) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], linestyle="", label=_plain(name, MOST_LABEL), **_look(series))


def _look(series: int) -> dict[str, Any]:
    return {"color": LIGHT[series % len(LIGHT)], "marker": _MARKERS[series % len(_MARKERS)]}


def _panel(axes: Any, panel: Panel) -> None:
    axes.set_title(_plain(panel.title), fontsize=8, loc="left")
    _axis(axes, "x", panel.x)
    _axis(axes, "y", panel.y)
    if panel.y.scale == "rows":
        axes.invert_yaxis()
    axes.grid(linewidth=0.4, alpha=0.5)
    for mark in panel.marks:
        _mark(axes, mark)


def _axis(axes: Any, name: str, axis: Axis) -> None:
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    if axis.scale == "log":
        axes.set(**{f"{name}scale": "log"})
    axes.set(**{f"{name}lim": axis.ends})
    its = axes.xaxis if name == "x" else axes.yaxis
    its.set_major_locator(FixedLocator([number for number, _ in axis.ticks]))
    its.set_major_formatter(FixedFormatter([_plain(text, MOST_LABEL) for _, text in axis.ticks]))
    its.set_minor_locator(NullLocator())
    its.set_tick_params(labelsize=6, left=False, bottom=False)
    its.set_label_text(_plain(axis.named), fontsize=7)


def _mark(axes: Any, mark: Mark) -> None:
    if isinstance(mark, ReferenceLine):
        axes.axvline(mark.at, color="black", linewidth=0.8, linestyle="--")
    elif isinstance(mark, Line):
        colour = "black" if mark.series is None else LIGHT[mark.series % len(LIGHT)]
        axes.plot(mark.x, mark.y, color=colour, linewidth=1, linestyle="--" if mark.dashed else "-")
        at, label = (mark.x[-1], mark.y[-1]), _plain(mark.label)
        axes.annotate(label, at, (0, 3), textcoords="offset points", ha="right", fontsize=6)
    elif isinstance(mark, Area):
        colour = LIGHT[mark.series % len(LIGHT)]
        axes.fill_between(mark.x, mark.low, mark.high, color=colour, alpha=0.35, linewidth=0)
    else:
        _points(axes, mark)


def _points(axes: Any, mark: Dots) -> None:
    look = _look(mark.series)
    places = mark.y if mark.along == "x" else mark.x
    known = [
        (place, *ends)
        for place, *ends in zip(places, mark.low, mark.high, strict=False)
        if any(end is not None for end in ends)
    ]
    if known:
        across = axes.hlines if mark.along == "x" else axes.vlines
        edges = axes.get_xlim() if mark.along == "x" else axes.get_ylim()
        at = [place for place, *_ in known]
        low = [edges[0] if end is None else end for _, end, _ in known]
        high = [edges[1] if end is None else end for *_, end in known]
        across(at, low, high, color=look["color"], linewidth=0.8)
    face = look["color"] if mark.filled else "white"
    size = 1.0 if mark.small else 3.2
    look |= {"linestyle": "", "markerfacecolor": face, "markeredgewidth": 0.7}
    axes.plot(mark.x, mark.y, markersize=size, **look)


def _plain(text: str, most: int = MOST_TITLE) -> str:
    r"""Shorten, make printable, escape what the font lacks, and `$`, which means mathematics."""
    drawn = _characters()
    plain = "".join(c if ord(c) in drawn else f"\\u{ord(c):04x}" for c in printable(text))
    return shortened(plain, most).replace("$", r"\$")


@cache
def _characters() -> frozenset[int]:
    """The characters that matplotlib's fonts can draw, fallback fonts included."""
    from matplotlib import rcParams
    from matplotlib.font_manager import FontProperties, findfont, get_font

    fonts = (findfont(FontProperties(family=[name])) for name in rcParams["font.family"])
    return frozenset().union(*(get_font(font).get_charmap() for font in fonts))
