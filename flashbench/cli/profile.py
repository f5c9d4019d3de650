"""`flashbench profile`: where the time of one case goes, by the hardware's own counters."""

import errno
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashbench.cli.measuring import refuse_given, tell
from flashbench.cli.options import (
    FORMATS,
    build_options,
    candidate_option,
    format_option,
    hourly_rate_option,
    output_option,
    seed_option,
    threads_option,
    timeout_option,
)
from flashbench.cli.output import deliver
from flashbench.cli.parameter_types import PathType
from flashbench.cli.settings import SettingsCommand
from flashbench.errors import Exit, InvalidInputError, NotMeasuredError
from flashbench.measuring.requested import how_to_build, rate_of
from flashbench.operations import parse_case

if TYPE_CHECKING:
    from flashbench.profile.model import CaseProfile


@click.command(
    "profile",
    cls=SettingsCommand,
    epilog="Exit codes: 0 profiled, with counters or by times alone, 1 the result is "
    "wrong, 2 usage, 4 nothing could be measured. Settings: [tool.flashbench.profile].",
)
@click.argument("case", metavar="CASE|FILE")
@candidate_option(
    "WHAT",
    "[NAME=]MODULE:FUNCTION, flashbench, sdpa, sdpa:BACKEND, or a revision.  [default: the "
    "callable of [tool.flashbench.project], built from the working tree; without that table "
    "flashbench itself]",
)
@click.option("--against", metavar="WHAT", help="Also profile this one, side by side.")
@click.option(
    "--variant",
    "variants",
    metavar="STAGE=MODULE:FUNCTION",
    multiple=True,
    help="The candidate with a stage left out, timed where there are no counters; its result may "
    "be wrong. Repeatable.",
)
@click.option("--cold", is_flag=True, help="Call with an empty L2 cache.  [default: a warm one]")
@threads_option
@seed_option
@timeout_option("For one step: a launch, or the replays of one call.", "120s")
@hourly_rate_option
@build_options()
@output_option(
    "The profile; the raw report and the picture go beside it.  "
    "[default: profile-<date>-<time>.json]",
    PathType(folder=False),
)
@format_option(FORMATS, "Format of the table on stdout.", "format_")
@click.pass_context
def command(
    context: click.Context, /, case: str, output: Path | None, format_: str, **options: Any
) -> int:
    """Show where the time of one call goes, and what bounds it.

    Nsight Compute reads the counters of exactly the measured call: the inputs and stream of a
    launch, with a warm or cold L2 cache, clocks left alone. Prints them with the lower bounds that
    this machine's measured peak rates set, the bottleneck with the rule and the numbers behind it,
    and the usual next steps. Without ncu, or without permission to read counters, it relies on
    times alone; on a CPU it uses `perf stat`.

    Given a FILE that it wrote earlier, print that profile again.
    """
    from flashbench.profile import model
    from flashbench.views import profile as view

    if case.endswith(".json"):
        refuse_given(
            context,
            lambda name: name not in ("case", "format_"),
            "is for a new profile, and this one was written before; drop it, or name a case",
        )
        found = model.read(Path(case))
    else:
        found = _measure(case, output or _new_file(), options)
    deliver(view.document(found), format_, None)
    return Exit.REGRESSION if found.subjects[0].status == "wrong" else Exit.PASS


def _measure(text: str, path: Path, options: dict[str, Any]) -> "CaseProfile":
    """Profile the case, and keep the document and its picture."""
    from flashbench import machine
    from flashbench.figures.profiled import draw_roofline
    from flashbench.measuring.forks import may_be_gpu
    from flashbench.profile import model
    from flashbench.profile.asked import ProfileRequest, asked_for
    from flashbench.profile.collect import How, collect
    from flashbench.run_plan import signals_as_interrupt

    case = parse_case(text)
    if case.device == "cpu" and options["cold"]:
        raise InvalidInputError("--cold empties the L2 cache of a GPU; drop it for a case on a CPU")
    if case.device == "cuda" and not may_be_gpu("auto"):
        raise NotMeasuredError(
            f"{text}: no GPU here, see `nvidia-smi`; name a case that ends with -cpu"
        )
    if path.exists():
        raise InvalidInputError(f"{path}: already exists; name another file with -o")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(path.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot be written: {error.strerror}") from None
    # A mistake in settings is reported before anything is built or launched.
    rate = rate_of(options | {"device": case.device})
    machine.read(machine.path())
    request = ProfileRequest(case, options["cold"], options["threads"], how_to_build(options))
    asked = asked_for(options["candidate"], options["against"], options["variants"], request, tell)
    how = How(
        cold=options["cold"],
        seed=options["seed"],
        timeout=options["timeout"],
        stem=path.with_suffix(""),
        tell=tell,
        keep=lambda found: model.save(found, path),
        rate=rate,
    )
    found = None
    try:
        with signals_as_interrupt():
            found = collect(case, asked, how, ["flashbench", *sys.argv[1:]])
            written = [path.name, *(one.report for one in found.subjects if one.report)]
            written += draw_roofline(found, path.with_suffix(".svg"))
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot be written: {error.strerror}") from None
    except KeyboardInterrupt:
        if found is not None:  # else `collect` says it
            tell(found.spent.line)
        there = f"; what was measured is in {path}" if path.exists() else ""
        raise NotMeasuredError(f"interrupted{there}") from None
    tell(f"{path.parent}: wrote {', '.join(written)}")
    return found


def _new_file() -> Path:
    return Path(f"profile-{datetime.now(UTC):%Y%m%d-%H%M%S}.json")
