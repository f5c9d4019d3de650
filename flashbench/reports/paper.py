"""Figures on paper: matplotlib draws the same panels as svg.py, as PDF or PNG."""

import io
from typing import TYPE_CHECKING, Any, Literal

from flashbench.errors import InvalidInputError
from flashbench.render.escape import printable
from flashbench.reports.figure import Area, Axis, Dots, Figure, Line, Mark, Panel, Rule
from flashbench.reports.svg import LIGHT, MOST_LABEL, MOST_TITLE, shortened

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Sheet

_MARKERS = ("o", "s", "D", "^", "v", "x")
_PANEL, _HEIGHT, _PIXEL = 3.5, 2.4, 1 / 110  # inches
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


def draw(figure: Figure, form: Literal["pdf", "png"], columns: int = 2) -> bytes:
    """The figure as a file."""
    metadata = {"CreationDate": None} if form == "pdf" else {"Software": None}
    out = io.BytesIO()
    sheet(figure, columns).savefig(out, format=form, dpi=_DPI, metadata=metadata)
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

    columns = max(1, min(columns, len(figure.panels)))
    lines = [figure.panels[i : i + columns] for i in range(0, len(figure.panels), columns)]
    heights = [max(map(_height, line)) for line in lines]
    made = NewSheet(figsize=(columns * _PANEL, sum(heights) + 0.6), layout="constrained")
    FigureCanvasAgg(made)
    grid = made.add_gridspec(len(lines), columns, height_ratios=heights)
    for number, line in enumerate(lines):
        for place, panel in enumerate(line):
            _panel(made.add_subplot(grid[number, place]), panel)
    made.suptitle(_plain(figure.title), fontsize=10)
    handles = [_key(series, name) for series, name in enumerate(figure.series)]
    made.legend(handles=handles, loc="outside lower center", ncols=4, fontsize=7, frameon=False)
    return made


def _height(panel: Panel) -> float:
    rows = len(panel.y.rows)
    return max(0.9 + panel.row * _PIXEL * rows, 1.2) if rows else _HEIGHT


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
    if axis.scale == "log":
        axes.set(**{f"{name}scale": "log"})
    axes.set(**{f"{name}lim": axis.ends, f"{name}label": _plain(axis.label)})
    ticks = axis.ticks
    axes.set(**{f"{name}ticks": [n for n, _ in ticks]})
    axes.set(**{f"{name}ticklabels": [_plain(text, MOST_LABEL) for _, text in ticks]})
    axes.tick_params(axis=name, which="both", labelsize=6)
    axes.tick_params(axis=name, which="minor", length=0, labelleft=False, labelbottom=False)
    getattr(axes, f"{name}axis").label.set_size(7)


def _mark(axes: Any, mark: Mark) -> None:
    if isinstance(mark, Rule):
        (axes.axvline if mark.along == "x" else axes.axhline)(
            mark.at, color="black", linewidth=0.8, linestyle="--"
        )
    elif isinstance(mark, Line):
        colour = "black" if mark.series is None else LIGHT[mark.series % len(LIGHT)]
        axes.plot(mark.x, mark.y, color=colour, linewidth=1, linestyle="--" if mark.dashed else "-")
    elif isinstance(mark, Area):
        colour = LIGHT[mark.series % len(LIGHT)]
        axes.fill_between(mark.x, mark.low, mark.high, color=colour, alpha=0.35, linewidth=0)
    else:
        _points(axes, mark)


def _points(axes: Any, mark: Dots) -> None:
    look = _look(mark.series)
    if mark.low:
        places = mark.y if mark.along == "x" else mark.x
        across = axes.hlines if mark.along == "x" else axes.vlines
        edges = axes.get_xlim() if mark.along == "x" else axes.get_ylim()
        low = [edges[0] if end is None else end for end in mark.low]
        high = [edges[1] if end is None else end for end in mark.high]
        across(places, low, high, color=look["color"], linewidth=0.8)
    face = look["color"] if mark.filled else "white"
    size = 1.0 if mark.small else 3.2
    look |= {"linestyle": "", "markerfacecolor": face, "markeredgewidth": 0.7}
    axes.plot(mark.x, mark.y, markersize=size, **look)


def _plain(text: str, most: int = MOST_TITLE) -> str:
    r"""Shorten, make printable, and escape `$`, which matplotlib reads as mathematics."""
    return shortened(printable(text), most).replace("$", r"\$")
