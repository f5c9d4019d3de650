"""`flashbench merge`: join the run files of `flashbench run --shard i/n`."""

import sys
from pathlib import Path

import click

from flashbench.cli.measuring import tell
from flashbench.cli.options import force_option, output_option
from flashbench.cli.parameter_types import PathType
from flashbench.errors import Exit, InvalidInputError


@click.command(
    "merge",
    epilog="Exit codes: 0 merged, even if parts are missing or unfinished (with a warning; "
    "`compare` calls their cases NOT MEASURED); 2 they cannot be merged.",
)
@click.argument("parts", metavar="PART...", nargs=-1, required=True, type=PathType())
@output_option(
    "The run file to write; an existing one must be contained in the parts.",
    PathType(folder=False),
    required=True,
)
@force_option("Replace a run file that has other results.")
def command(parts: tuple[Path, ...], output: Path, force: bool) -> int:
    """Join the run files of the shards of one run into one run file.

    The parts must come from one plan, one kind of machine and the same builds. `flashbench run
    --resume` on the merged file measures what is missing.
    """
    from flashbench.fleet.merge import lost, merge, warnings
    from flashbench.measuring.claim import claimed
    from flashbench.runfile import read, save

    named = [(str(path), read(path)) for path in parts]
    merged = merge(named, ["flashbench", *sys.argv[1:]])
    with claimed(output, "-o", force=force, tell=tell) as known:
        if known is not None and (count := lost(known, merged)):
            raise InvalidInputError(
                f"{output}: has {count} results that the parts lack; name another file with -o, or "
                "replace it with --force"
            )
        try:
            save(merged, output)
        except OSError as error:
            raise InvalidInputError(f"{output}: cannot be written: {error.strerror}") from None
    for line in warnings(named, merged):
        tell(f"warning: {line}")
    count = sum(len(launch.results) for launch in merged.launches)
    tell(
        f"{output}: {count} results of {len(parts)} parts, {merged.device_seconds:.1f} device "
        "seconds"
    )
    return Exit.PASS
