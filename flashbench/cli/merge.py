"""`flashbench merge`: joins the run files of `flashbench run --shard i/n`."""

import sys
from pathlib import Path

import click

from flashbench.errors import Exit, InvalidInputError
from flashbench.render.escape import printable


@click.command(
    "merge",
    epilog="Exit codes: 0 merged, also when parts are missing or unfinished (a warning says so, "
    "and `compare` says NOT MEASURED of their cases); 2 they cannot be merged.",
)
@click.argument(
    "parts", metavar="PART...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="The run file to write.",
)
def command(parts: tuple[Path, ...], output: Path) -> int:
    """Join the run files of the shards of one run into one run file.

    The parts have to be of one plan, one kind of machine and the same builds. `flashbench run
    --resume` on the merged file measures what it lacks.
    """
    from flashbench.fleet.merge import merge, warnings
    from flashbench.runfile import load, save

    named = [(str(path), load(path)) for path in parts]
    merged = merge(named, ["flashbench", *sys.argv[1:]])
    try:
        save(merged, output)
    except OSError as error:
        raise InvalidInputError(f"{output}: cannot be written: {error.strerror}") from None
    for line in warnings(named, merged):
        click.echo(f"flashbench: warning: {printable(line)}", err=True)
    count = sum(len(launch.results) for launch in merged.launches)
    click.echo(
        f"flashbench: {printable(str(output))}: {count} results of {len(parts)} parts, "
        f"{merged.device_seconds:.1f} device seconds",
        err=True,
    )
    return Exit.PASS
