"""The report as one HTML file: no script, no request, every text escaped."""

from collections.abc import Sequence
from importlib import resources

import jinja2
from markupsafe import Markup

from flashbench.figures.chapter import Chapter
from flashbench.figures.figure import Figure, Panel, folded
from flashbench.figures.side_by_side import SideBySide
from flashbench.figures.svg import DARK_STYLE, LIGHT_STYLE, key_svg, panel_svg
from flashbench.render.escape import printable
from flashbench.render.html import environment

_MANY = 40  # more rows than these are folded


def page(chapters: Sequence[Chapter], command: str, together: SideBySide | None = None) -> str:
    """Render the page. command: the one that makes the report again; together: the chapters side
    by side."""
    made = with_figures(environment("flashbench.figures", printable))
    values = {"chapters": chapters, "together": together, "command": command, "many": _MANY}
    style = Markup(figure_style())  # noqa: S704 (ours)
    return made.get_template("report.html").render(figure_style=style, **values) + "\n"


def with_figures(made: jinja2.Environment) -> jinja2.Environment:
    """Let these templates draw figures: {% from "shared.html" import drawn, table %}."""
    assert made.loader is not None
    made.loader = jinja2.ChoiceLoader([made.loader, jinja2.PackageLoader("flashbench.figures")])
    made.globals |= {"folded": folded, "svg": _svg, "keys": _keys}
    return made


def figure_style() -> str:
    """The style sheet of figures; their page sets --soft."""
    layout = (resources.files("flashbench.figures") / "templates" / "figure.css").read_text()
    dark = f"@media screen and (prefers-color-scheme: dark) {{ {DARK_STYLE} }}"
    return f"{layout}{LIGHT_STYLE}\n{dark}\n"


def _svg(panel: Panel) -> Markup:
    return Markup(panel_svg(panel))  # noqa: S704 (svg.py has escaped it)


def _keys(figure: Figure) -> list[tuple[Markup, str]]:
    """Mark and name of each series; none for a single one."""
    if len(figure.series) < 2:
        return []
    return [(Markup(key_svg(number)), name) for number, name in enumerate(figure.series)]  # noqa: S704
