"""`flashbench record`: add run files to the project's history."""

from pathlib import Path

import click

from flashbench.cli.measuring import tell
from flashbench.cli.options import results_option
from flashbench.cli.parameter_types import PathType
from flashbench.errors import Exit, InvalidInputError
from flashbench.settings import SettingsCommand


@click.command(
    "record",
    cls=SettingsCommand,
    epilog="Exit codes: 0 all were recorded, 2 a file cannot be, or only with --anyway (those "
    "before it were), 4 a file has no times. Defaults: [tool.flashbench.record] of "
    "pyproject.toml.",
)
@click.argument("files", metavar="RUN...", nargs=-1, required=True, type=PathType())
@click.option(
    "--machine",
    help="Its name in the history [default: asv's name of this machine, in ~/.asv-machine.json, "
    "else the run file's host name].",
)
@click.option("--commit", help="The revision that was measured, if the run file does not name it.")
@results_option
@click.option(
    "--anyway",
    is_flag=True,
    help="Also record a run that is unfinished, has fewer than 3 launches, was throttled or was "
    "measured on a busy machine.",
)
def command(
    files: tuple[Path, ...],
    machine: str | None,
    commit: str | None,
    results: Path | None,
    anyway: bool,
) -> int:
    """Add run files of `flashbench run` to the history, beside the results of `asv run`.

    Numbers go to the commit that the run file names. Recording a file twice changes nothing;
    `flashbench history` and `asv publish` read the result.
    """
    from flashbench.history.doubts import doubts
    from flashbench.history.machines import choose
    from flashbench.history.to_asv import keep
    from flashbench.revisions import git
    from flashbench.run_reader import load

    repository = git.root_of(Path.cwd())
    folder = results or repository / ".asv" / "results"
    for file in files:
        run = load(file)
        wrong = "; ".join(doubts(run))
        if wrong and run.launches and run.pair is None and not anyway:
            raise InvalidInputError(f"{file}: {wrong}; measure again, or keep it with --anyway")
        try:
            written = keep(run, str(file), folder, repository, machine=machine, commit=commit)
        except OSError as error:
            raise InvalidInputError(
                f"{error.filename or folder}: cannot be written: {error.strerror}; fix that and "
                f"record {file} again: earlier results are intact"
            ) from None
        if wrong:
            tell(f"warning: {file}: {wrong}")
        named = choose(machine, run.environment.hostname, str(file))
        tell(f"{file}: of machine {named.name}: {named.why}")
        for path in written:
            tell(f"{file}: kept in {path}")
    return Exit.PASS
