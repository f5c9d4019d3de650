"""Shown: results with a table, as text, DataFrame, figure and notebook output."""

import math
from typing import TYPE_CHECKING, Any, Literal

from flashbench.api.arguments import checked, one_of
from flashbench.errors import InvalidInputError
from flashbench.render import render
from flashbench.render.notebook import html
from flashbench.table import NONE, Document

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Sheet
    from pandas import DataFrame

    from flashbench.figures.figure import Figure

View = Literal["speedup", "detail"]
Format = Literal["text", "markdown", "csv", "json", "junit"]


class Shown:
    """A table of numbers. Subclasses say which."""

    def document(self, view: View = "speedup") -> Document:
        """The table as data."""
        raise NotImplementedError

    def figures(self) -> "list[Figure]":
        """What can be drawn of it."""
        raise NotImplementedError

    @checked(format=one_of(Format), view=one_of(View))
    def table(self, format: Format = "text", *, view: View = "speedup") -> str:
        """The table as the commands print it. view: "speedup" has a row for each case with its
        verdict, "detail" the percentiles of every candidate."""
        return render(self.document(view), format)

    @checked(view=one_of(View))
    def to_dataframe(self, view: View = "speedup") -> "DataFrame":
        """The table as a pandas DataFrame, with the columns of its CSV (docs/run-file.md): times in
        microseconds, speed-ups as ratios. InvalidInputError if pandas is not installed."""
        found = self.document(view)
        columns: dict[str, list[Any]] = {}
        for column in found.columns:
            values = [row.get(column.key, NONE).value for row in found.rows]
            missing = math.nan if column.numeric else None
            columns[column.key] = [missing if value is None else value for value in values]
        return dataframe(columns)

    def plot(self, name: str = "") -> "Sheet":
        """A matplotlib figure. name: of one of those that `flashbench report` draws; "": the first
        of them. InvalidInputError if there is none, or matplotlib is not installed."""
        from flashbench.figures import paper

        paper.require("figures")
        drawn = {figure.name: figure for figure in self.figures()}
        if not drawn or (name and name not in drawn):
            known = f"; there are {', '.join(drawn)}" if drawn else ""
            raise InvalidInputError(f"there is no figure {name!r} of this{known}")
        return paper.sheet(drawn[name] if name else next(iter(drawn.values())))

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        return html(self.document())


def dataframe(columns: dict[str, list[Any]]) -> "DataFrame":
    """A DataFrame of these columns; InvalidInputError if pandas is not installed."""
    try:
        import pandas
    except ImportError:
        raise InvalidInputError(
            "to_dataframe() needs pandas: python -m pip install pandas; table('csv') needs nothing"
        ) from None
    return pandas.DataFrame(columns)
