"""Options of the commands that measure: the grid of cases, and the effort spent on each."""

import math
import re
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from flashbench.case import DTYPES, PRESETS, Shape, parse_shape
from flashbench.errors import InvalidInputError
from flashbench.render.escape import printable

if TYPE_CHECKING:
    from flashbench.revisions import Project
    from flashbench.revisions.revision import Revision

_UNITS = {"us": 1e-6, "ms": 1e-3, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+) *(us|ms|s|m|h|)")
CAUSAL = {"both": (False, True), "causal": (True,), "full": (False,)}

Command = Callable[..., int]


class Duration(click.ParamType[float]):
    """`200us`, `250ms`, `60s`, `5m`, `1h`, or a number of seconds; more than zero."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        match = _DURATION.fullmatch(str(value).strip())
        seconds = float(match[1]) * _UNITS[match[2]] if match else math.nan
        if not 0 < seconds < math.inf:
            self.fail(f"{value!r} is not a time; write 200us, 250ms, 60s, 5m or 1h", param, ctx)
        return seconds


class Count(click.IntRange):
    """A whole number between two bounds, both included."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return int(super().convert(value, param, ctx))
        except click.BadParameter:
            least, most = self.min, self.max
            bounds = f"from {least} to {most}" if most is not None else f"of {least} or more"
            self.fail(f"{value!r} is no whole number {bounds}", param, ctx)


class Number(click.ParamType[float]):
    """A number that is zero or more, or above zero, and not infinite."""

    name = "number"

    def __init__(self, *, above_zero: bool = False) -> None:
        self.above_zero = above_zero

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not 0 <= number < math.inf or (self.above_zero and not number):
            bound = "above zero" if self.above_zero else "of zero or more"
            self.fail(f"{value!r} is no number {bound}; write one such as 2.5", param, ctx)
        return number


def _shapes(
    context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> tuple[str, ...]:
    """Refuse a wrong shape before anything is built or read."""
    try:
        for text in texts:
            parse_shape(text)
    except InvalidInputError as error:
        raise click.BadParameter(str(error), context, parameter) from None
    return texts


_GRID = [
    click.option(
        "--preset",
        "presets",
        type=click.Choice(list(PRESETS)),
        multiple=True,
        help="Shapes to measure; repeatable.  [default: headline]",
    ),
    click.option(
        "--shape",
        "shapes",
        multiple=True,
        callback=_shapes,
        metavar="SHAPE",
        help="1,8,512,64 or b1-h8-g2-q512-k1024-d64.",
    ),
    click.option(
        "--dtype",
        "dtypes",
        type=click.Choice(DTYPES),
        multiple=True,
        help="Repeatable.  [default: fp32, fp16, bf16 on cpu; fp16, bf16 on cuda]",
    ),
    click.option(
        "--causal",
        type=click.Choice(["both", "causal", "full"]),
        default="both",
        show_default=True,
        help="With the causal mask, without, or both.",
    ),
    click.option(
        "--device",
        type=click.Choice(["auto", "cpu", "cuda"]),
        default="auto",
        show_default=True,
        help="auto: cuda if there is one.",
    ),
]

_EFFORT = [
    click.option(
        "--samples",
        type=Count(2, 100_000),
        default=40,
        show_default=True,
        help="A launch, metric and candidate; slow calls get fewer.",
    ),
    click.option(
        "--min-sample",
        type=Duration(),
        help="A sample averages as many calls as last this long.  [default: 2ms cpu, 100us cuda]",
    ),
    click.option("--threads", type=Count(1, 4096), help="CPU threads of torch."),
    click.option("--seed", type=Count(0, 2**53), default=0, show_default=True),
    click.option(
        "--budget", type=Duration(), help="Device time to spend, e.g. 60s, 10m: a hard stop."
    ),
    click.option(
        "--timeout",
        type=Duration(),
        default="60s",
        show_default=True,
        help="For one candidate's check, or one block of its samples.",
    ),
    click.option("--hourly-rate", type=Number(), help="Price of an hour of the device."),
]


# Of the commands that build before they measure.
build_timeout_option = click.option(
    "--build-timeout",
    type=Duration(),
    default="30m",
    show_default=True,
    help="Of one build; an import, and its calls, may take 2m at the most.",
)
retry_build_option = click.option(
    "--retry-build", is_flag=True, help="Build again what did not build the last time."
)
# Of those that build many commits.
jobs_option = click.option(
    "-j",
    "--jobs",
    type=Count(1, 256),
    help="Builds at once.  [default: cores, 4 at most]",
)


# Of those that measure revisions beside each other.
processes_option = click.option(
    "--processes",
    type=click.Choice(["auto", "shared", "paired"]),
    default="auto",
    show_default=True,
    help="shared: a launch is one process with all revisions; paired: one for each, in turns; "
    "auto: paired, but shared for flashbench's own kernel, which leaves nothing in a process.",
)


def processes_of(project: "Project | None", options: dict[str, Any]) -> str:
    """How revisions of a project are measured. What a process holds once cannot be listed, so only
    code that is known to leave nothing there shares one unasked; None: flashbench's own."""
    asked: str = options["processes"]
    is_foreign = project is not None and project.build is not None
    return "paired" if asked == "auto" and is_foreign else asked


def grid_options(command: Command) -> Command:
    """Add the options that choose cases and device."""
    return _add(_GRID, command)


def effort_options(command: Command) -> Command:
    """Add the options that choose samples, threads, seed, budget and time-out."""
    return _add(_EFFORT, command)


def chosen_shapes(options: dict[str, Any]) -> list[Shape]:
    """The shapes of --preset and --shape; the headline shape if neither is given."""
    presets = options["presets"] or (() if options["shapes"] else ("headline",))
    shapes = [shape for preset in presets for shape in PRESETS[preset]]
    return shapes + [parse_shape(text) for text in options["shapes"]]


def new_run_file(prefix: str) -> Path:
    """A new file for a run that the user gave no name: `prefix`, and the time in UTC; one that no
    other process is about to write."""
    from flashbench.measure.claim import lock_of

    name = f"{prefix}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    path, count = Path(f"{name}.json"), 1
    while path.exists() or lock_of(path).exists():
        count += 1
        path = Path(f"{name}-{count}.json")
    return path


def tell(text: str) -> None:
    """A line on stderr."""
    # Reasons quote what candidates printed and what run files say: nothing may steer the terminal.
    click.echo(f"flashbench: {printable(text)}", err=True)


def tell_still(timeout: float, flag: str) -> Callable[[Sequence["Revision"]], None]:
    """A function for a line on stderr while builds take long; timeout: seconds, set by the flag."""

    def still(revisions: Sequence["Revision"]) -> None:
        labels = ", ".join(revision.label for revision in revisions)
        tell(f"still building or checking {labels}; a build may take {timeout:g} s ({flag})")

    return still


def plan_options(options: dict[str, Any]) -> dict[str, Any]:
    """What every `Plan` takes from the options of this module."""
    return {
        "shapes": chosen_shapes(options),
        "dtypes": options["dtypes"] or None,
        "causal": CAUSAL[options["causal"]],
        "device": options["device"],
        "samples": options["samples"],
        "seed": options["seed"],
        "threads": options["threads"],
        "min_sample_seconds": options["min_sample"],
        "timeout_seconds": options["timeout"],
        "budget_seconds": options["budget"],
        "hourly_rate": options["hourly_rate"],
        "processes": options.get("processes", "auto"),
        "command": ["flashbench", *sys.argv[1:]],
    }


def is_given(context: click.Context, name: str) -> bool:
    """Whether an option is on the command line, so that it is not a default or a setting."""
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


def refuse_given(context: click.Context, refused: Callable[[str], bool], why: str) -> None:
    """Raise InvalidInputError for an option on the command line that is refused by its name."""
    for parameter in context.command.params:
        name = parameter.name or ""
        if is_given(context, name) and refused(name):
            raise InvalidInputError(f"{parameter.opts[0]} {why}")


def _add(options: Sequence[Callable[[Command], Command]], command: Command) -> Command:
    for option in reversed(options):
        command = option(command)
    return command
