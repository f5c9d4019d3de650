"""Figures as files of a folder: a picture, its numbers as CSV, and its caption."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, count
from pathlib import Path

from flashbench.cost.spent import Spent
from flashbench.figures.chapter import Chapter
from flashbench.figures.figure import Figure
from flashbench.figures.side_by_side import SideBySide
from flashbench.render.csv import table
from flashbench.views import frame

Write = Callable[[Path, str | bytes], None]


def write_figures(
    chapters: Sequence[Chapter],
    together: SideBySide | None,
    folder: Path,
    form: str,
    made_by: str,
    write: Write,
) -> None:
    """Write the figures of all chapters. form: svg, pdf or png; made_by: the command; write: writes
    one file."""
    if together and together.figure:
        spent = Spent.total(frame.spent(one.report) for one in chapters)
        place = folder / together.figure.name
        _write_figure(together.figure, place, form, [spent.line, f"$ {made_by}"], write)
    for one, file in zip(chapters, file_names(one.name for one in chapters), strict=True):
        below = [one.methods, frame.spent(one.report).line, f"$ {made_by}"]
        prefix = f"{file}-" if len(chapters) > 1 else ""
        for figure in one.figures:
            _write_figure(figure, folder / f"{prefix}{figure.name}", form, below, write)


def file_names(names: Iterable[str]) -> list[str]:
    """Distinct prefixes for file names, without characters special to shells and file systems."""
    found: list[str] = []
    for name in names:
        plain = "".join(c if c.isalnum() or c in "._-" else "-" for c in name)
        plain = plain.strip(".-")[:100] or "run"
        others = (f"{plain}-{number}" for number in count(2))
        found.append(next(one for one in chain([plain], others) if one not in found))
    return found


def _write_figure(
    figure: Figure, place: Path, form: str, below: Sequence[str], write: Write
) -> None:
    """Write a picture, its numbers as CSV, and its notes, followed by `below`."""
    write(place.with_name(f"{place.name}.{form}"), _picture(figure, form))
    write(place.with_name(f"{place.name}.csv"), table(figure.data.columns, figure.data.rows))
    notes = [*figure.notes]
    if len(figure.drawn) < len(figure.panels):
        notes.append(
            f"{len(figure.drawn)} of {len(figure.panels)} panels are drawn, some of every kind; "
            f"{place.name}.csv has the numbers of all, and `--format html` the others."
        )
    words = [figure.title, " ".join([figure.caption, *notes])]
    text = "\n\n".join(filter(None, [*words, *below]))
    write(place.with_name(f"{place.name}.txt"), f"{text}\n")


def _picture(figure: Figure, form: str) -> str | bytes:
    if form == "svg":
        from flashbench.figures.svg import sheet

        return sheet(figure)
    from flashbench.figures.paper import draw

    return draw(figure, "pdf" if form == "pdf" else "png")
