"""The report as one HTML file: no script, no request, every text escaped."""

from collections.abc import Sequence

from markupsafe import Markup

from flashbench.render.escape import printable
from flashbench.render.html import environment
from flashbench.reports.chapter import Chapter
from flashbench.reports.figure import Figure
from flashbench.reports.side_by_side import SideBySide
from flashbench.reports.svg import DARK_STYLE, LIGHT_STYLE, key_svg, panel_svg

_MANY = 40  # more rows than these are folded


def page(chapters: Sequence[Chapter], command: str, together: SideBySide | None = None) -> str:
    """Render the page. command: the one that makes the report again; together: the chapters side
    by side."""
    # SVG that svg.py has escaped, and style sheets of our own.
    values = {
        "panels": lambda figure: [Markup(panel_svg(panel)) for panel in figure.panels],  # noqa: S704
        "keys": _keys,
        "light": Markup(LIGHT_STYLE),  # noqa: S704
        "dark": Markup(DARK_STYLE),  # noqa: S704
        "many": _MANY,
    }
    template = environment("flashbench.reports", printable).get_template("report.html")
    return template.render(chapters=chapters, together=together, command=command, **values) + "\n"


def _keys(figure: Figure) -> list[tuple[Markup, str]]:
    """Mark and name of each series; none for a single one."""
    if len(figure.series) < 2:
        return []
    return [(Markup(key_svg(number)), name) for number, name in enumerate(figure.series)]  # noqa: S704
