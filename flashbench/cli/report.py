"""`flashbench report`: figures and a page of run files."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from flashbench.cli.options import decision_options, format_option, output_option
from flashbench.cli.output import judging_options
from flashbench.cli.parameter_types import PathType
from flashbench.cli.report_file import require_writable, write_report
from flashbench.cli.settings import SettingsCommand
from flashbench.errors import Exit, InvalidInputError, NotMeasuredError


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
    from flashbench.figures.chapter import chapter
    from flashbench.figures.roofs import known_roofs, read_roofs
    from flashbench.run_reader import read_for_analysis

    ceilings = [one for path in roofs for one in read_roofs(path)]
    chapters = []
    for path, name in zip(files, _names(files), strict=True):
        run = read_for_analysis(path)
        if not run.cases:
            raise NotMeasuredError(f"{path}: nothing to show: it has no case")
        known = [*ceilings, *known_roofs(path, run)]
        judging = judging_options(run, options)
        chapters.append(chapter(name, run, known, against=options["against"], **judging))
    together = None
    if len(chapters) > 1:
        from flashbench.figures.side_by_side import side_by_side

        together = side_by_side([(one.name, one.report) for one in chapters])
    made_by = shlex.join(["flashbench", *sys.argv[1:]])
    if form != "html":
        from flashbench.figures.folder import write_figures

        write_figures(chapters, together, output, form, made_by, write_report)
        return Exit.PASS
    from flashbench.figures.page import page

    text = page(chapters, made_by, together)
    write_report(output, text) if output else click.echo(text, nl=False)
    return Exit.PASS


def _prepare(form: str, output: Path | None) -> None:
    """Refuse an unwritable output before anything is read."""
    if output is None:
        raise InvalidInputError(f"--format {form} writes several files: name a folder with -o")
    if form != "svg":
        from flashbench.figures.paper import require

        require()
    try:
        output.mkdir(exist_ok=True)
    except OSError as error:
        raise InvalidInputError(f"{output}: cannot be a folder: {error.strerror}") from None


def _names(files: Sequence[Path]) -> list[str]:
    """Short, distinct names."""
    names = [path.stem for path in files]
    return names if len(set(names)) == len(names) else [str(path) for path in files]
