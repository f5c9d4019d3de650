"""`flashbench report`: figures and a page of run files."""

import platform
import shlex
import sys
from collections.abc import Iterable, Sequence
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from flashbench import machine
from flashbench.cli.options import decision_options, format_option, output_option
from flashbench.cli.output import judging_options
from flashbench.cli.parameter_types import PathType
from flashbench.cli.report_file import require_writable, write_report
from flashbench.cli.settings import SettingsCommand
from flashbench.errors import Exit, InvalidInputError, NotMeasuredError
from flashbench.inputs import read_input
from flashbench.run_checks import possible_peaks
from flashbench.runfile import Ceilings

if TYPE_CHECKING:
    from flashbench.reports.figure import Figure
    from flashbench.runfile import RunFile

_MOST_ROOFS = 2**24  # bytes


class _Roofs(msgspec.Struct):
    """The common part of files with ceilings: `info --peak --format json`, the machine's profile
    ($FLASHBENCH_MACHINE) and case profiles."""

    ceilings: Ceilings | list[Ceilings | None] | None = None


_ROOFS = msgspec.json.Decoder(_Roofs)


@click.command(
    "report",
    cls=SettingsCommand,
    epilog="Defaults: [tool.flashbench.report] of pyproject.toml.",
    help="Figures and tables of run files: speed-ups with intervals, distributions, scaling with "
    "the length, roofline, memory, what is undecided, the machine during the run, and a paragraph "
    "on methods. As one HTML file that needs no network, or as a folder with a picture, a CSV file "
    "and the caption of each figure.",
)
@click.argument("files", metavar="RUN...", type=PathType(), nargs=-1, required=True)
@decision_options
@click.option(
    "--roofs",
    type=PathType(folder=False),
    multiple=True,
    metavar="FILE",
    help="Measured peaks for the roofline: `flashbench info --peak --format json`, or a profile; "
    "repeatable.  [default: those in the run file, else of this machine, if it made the file, "
    "else of a machine.json beside it]",
)
@format_option(
    ["html", "svg", "pdf", "png"],
    "A page, or a folder of figures; pdf and png need matplotlib: pip install "
    "'flashbench[figures]'.",
)
@output_option("The page, by default stdout; or the folder.", PathType())
def command(files: tuple[Path, ...], roofs: tuple[Path, ...], **options: Any) -> int:
    form, output = options["output_format"], options["output"]
    if form == "html":
        if output is not None:
            require_writable(output)
    else:
        _prepare(form, output)
    from flashbench.cost.spent import Spent
    from flashbench.reports.chapter import chapter
    from flashbench.run_reader import load_read_only
    from flashbench.views import frame

    ceilings = [one for path in roofs for one in _read_roofs(path)]
    chapters = []
    for path, name in zip(files, _names(files), strict=True):
        run = load_read_only(path)
        if not run.cases:
            raise NotMeasuredError(f"{path}: nothing to show: it has no case")
        known = [*ceilings, *run.ceilings, *_of_this_machine(run), *_beside(path)]
        judging = judging_options(run, options)
        chapters.append(chapter(name, run, known, against=options["against"], **judging))
    together = None
    if len(chapters) > 1:
        from flashbench.reports.side_by_side import side_by_side

        together = side_by_side([(one.name, one.report) for one in chapters])
    made_by = shlex.join(["flashbench", *sys.argv[1:]])
    if form != "html":
        if together and together.figure:
            spent = Spent.total(frame.spent(one.report) for one in chapters)
            place = output / together.figure.name
            _write_figure(together.figure, place, form, [spent.line], made_by)
        for one, file in zip(chapters, file_names(one.name for one in chapters), strict=True):
            words = [one.methods, frame.spent(one.report).line]
            prefix = f"{file}-" if len(chapters) > 1 else ""
            for figure in one.figures:
                _write_figure(figure, output / f"{prefix}{figure.name}", form, words, made_by)
        return Exit.PASS
    from flashbench.reports.page import page

    text = page(chapters, made_by, together)
    write_report(output, text) if output else click.echo(text, nl=False)
    return Exit.PASS


def _prepare(form: str, output: Path | None) -> None:
    """Refuse an unwritable output before anything is read."""
    if output is None:
        raise InvalidInputError(f"--format {form} writes several files: name a folder with -o")
    if form != "svg":
        from flashbench.reports.paper import require

        require()
    try:
        output.mkdir(exist_ok=True)
    except OSError as error:
        raise InvalidInputError(f"{output}: cannot be a folder: {error.strerror}") from None


def _names(files: Sequence[Path]) -> list[str]:
    """Short, distinct names."""
    names = [path.stem for path in files]
    return names if len(set(names)) == len(names) else [str(path) for path in files]


def _read_roofs(path: Path) -> list[Ceilings]:
    try:
        found = _ROOFS.decode(read_input(path, _MOST_ROOFS, "a profile"))
        listed = found.ceilings if isinstance(found.ceilings, list) else [found.ceilings]
        ceilings = [one for one in listed if one is not None]
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        raise InvalidInputError(f"{path}: not a file with peaks: {error}") from None
    if not ceilings or not all(map(possible_peaks, ceilings)):
        raise InvalidInputError(
            f"{path}: has no measured peaks; make one with: flashbench info --peak --format json"
        )
    return ceilings


def _of_this_machine(run: "RunFile") -> list[Ceilings]:
    """This machine's stored ceilings, if it made the run file."""
    if run.environment.hostname != platform.node():
        return []
    return machine.load(machine.path()).ceilings


def _beside(path: Path) -> list[Ceilings]:
    """Those of a machine profile in the run file's folder."""
    try:
        found = machine.load(path.with_name("machine.json")).ceilings
    except InvalidInputError:
        return []  # another program's, such as asv's
    return [one for one in found if possible_peaks(one)]


def _write_figure(
    figure: "Figure", place: Path, form: str, below: Sequence[str], made_by: str
) -> None:
    """Write a picture, its numbers as CSV, and its notes, followed by `below`."""
    from flashbench.render.csv import table

    write_report(place.with_name(f"{place.name}.{form}"), _picture(figure, form))
    write_report(place.with_name(f"{place.name}.csv"), table(figure.data.columns, figure.data.rows))
    notes = [*figure.notes]
    if len(figure.drawn) < len(figure.panels):
        notes.append(
            f"{len(figure.drawn)} of {len(figure.panels)} panels are drawn, some of every kind; "
            f"{place.name}.csv has the numbers of all, and `--format html` the others."
        )
    words = [figure.title, " ".join([figure.caption, *notes])]
    text = "\n\n".join(filter(None, [*words, *below, f"$ {made_by}"]))
    write_report(place.with_name(f"{place.name}.txt"), f"{text}\n")


def file_names(names: Iterable[str]) -> list[str]:
    """Distinct prefixes for file names, without characters special to shells and file systems."""
    found: list[str] = []
    for name in names:
        plain = "".join(c if c.isalnum() or c in "._-" else "-" for c in name)
        plain = plain.strip(".-")[:100] or "run"
        others = (f"{plain}-{number}" for number in count(2))
        found.append(next(one for one in chain([plain], others) if one not in found))
    return found


def _picture(figure: "Figure", form: str) -> str | bytes:
    if form == "svg":
        from flashbench.reports.svg import sheet

        return sheet(figure)
    from flashbench.reports.paper import draw

    return draw(figure, "pdf" if form == "pdf" else "png")
