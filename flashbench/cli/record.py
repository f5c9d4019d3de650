"""`flashbench record`: add run files and profiles to the project's history."""

from pathlib import Path

import click

from flashbench.cli.measuring import tell
from flashbench.cli.options import machine_option, results_option
from flashbench.cli.parameter_types import PathType
from flashbench.cli.settings import SettingsCommand
from flashbench.errors import Exit, InvalidInputError


@click.command(
    "record",
    cls=SettingsCommand,
    epilog="Exit codes: 0 all were recorded; 2 a file cannot be recorded, or only with --anyway "
    "(files before it were); 4 a file has no times. Defaults: [tool.flashbench.record] of "
    "pyproject.toml.",
)
@click.argument("files", metavar="RUN...", nargs=-1, required=True, type=PathType())
@machine_option(
    "This machine's name in the history [default: asv's, in ~/.asv-machine.json, else the run "
    "file's host name]."
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
    `flashbench history` and `asv publish` read the result. Profiles of `flashbench profile` are
    kept too, with their raw reports; `flashbench history` says what changed between them.
    """
    from flashbench.history.doubts import doubts
    from flashbench.history.machines import choose
    from flashbench.history.to_asv import keep
    from flashbench.profile.model import is_profile
    from flashbench.revisions import git
    from flashbench.run_reader import read_for_analysis

    repository = git.root_of(Path.cwd())
    folder = results or repository / ".asv" / "results"
    for file in files:
        if is_profile(file):
            _keep_profile(file, folder, repository, machine, commit)
            continue
        run = read_for_analysis(file)
        wrong = "; ".join(doubts(run))
        if wrong and run.launches and run.pair is None and not anyway:
            raise InvalidInputError(f"{file}: {wrong}; measure again, or keep it with --anyway")
        try:
            written = keep(run, str(file), folder, repository, machine=machine, commit=commit)
        except OSError as error:
            raise _unwritten(error, folder, file) from None
        if wrong:
            tell(f"warning: {file}: {wrong}")
        named = choose(machine, run.environment.hostname, str(file))
        tell(f"{file}: of machine {named.name}: {named.why}")
        for path in written:
            tell(f"{file}: kept in {path}")
    return Exit.PASS


def _keep_profile(
    file: Path, folder: Path, repository: Path, machine: str | None, commit: str | None
) -> None:
    from flashbench.history import profiles
    from flashbench.profile.model import read

    try:
        found = read(file)
        written = profiles.keep(found, file, folder, repository, machine=machine, commit=commit)
    except OSError as error:
        raise _unwritten(error, folder, file) from None
    for path in written:
        tell(f"{file}: kept in {path}")
    missing = [one.report for one in found.subjects if one.report and not one.candidate.baseline]
    for report in (name for name in missing if not (file.parent / Path(name).name).is_file()):
        tell(f"warning: {file}: its raw report {report} is not beside it, and is not kept")


def _unwritten(error: OSError, folder: Path, file: Path) -> InvalidInputError:
    return InvalidInputError(
        f"{error.filename or folder}: cannot be written: {error.strerror}; fix that and "
        f"record {file} again: earlier results are intact"
    )
