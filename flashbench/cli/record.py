"""`flashbench record`: keeps run files in the history of the project."""

from pathlib import Path

import click

from flashbench.errors import Exit, InvalidInputError
from flashbench.render.escape import printable
from flashbench.settings import SettingsCommand


@click.command(
    "record",
    cls=SettingsCommand,
    epilog="Exit codes: 0 all were kept, 2 a file cannot be (those before it were), 4 a file holds "
    "no times. Defaults: [tool.flashbench.record] of pyproject.toml.",
)
@click.argument("files", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--machine", help="Its name in the history [default: the run file's host name].")
@click.option("--commit", help="The revision that was measured, where the run file does not say.")
@click.option(
    "--results",
    type=click.Path(path_type=Path, file_okay=False),
    help="asv's results folder [default: .asv/results of the repository].",
)
def command(
    files: tuple[Path, ...], machine: str | None, commit: str | None, results: Path | None
) -> int:
    """Keep run files of `flashbench run` in the history, beside the results of `asv run`.

    Numbers go to the commit that the run file says was measured. Keeping a file twice changes
    nothing; `flashbench history` and `asv publish` read what was kept.
    """
    from flashbench.history.keep import keep
    from flashbench.project import git
    from flashbench.run_reader import load

    repository = git.root_of(Path.cwd())
    folder = results or repository / ".asv" / "results"
    for file in files:
        run = load(file)
        try:
            written = keep(run, str(file), folder, repository, machine=machine, commit=commit)
        except OSError as error:
            raise InvalidInputError(
                f"{error.filename or folder}: cannot be written: {error.strerror}; mend that and "
                f"record {file} again: what was kept before is whole"
            ) from None
        for path in written:
            click.echo(
                f"flashbench: {printable(str(file))}: kept in {printable(str(path))}", err=True
            )
    return Exit.PASS
