"""The options that several commands share."""

from collections.abc import Callable

import click

from flashbench import defaults, operations
from flashbench.callables import LAYOUTS, MASK_REQUESTS
from flashbench.case import DTYPES
from flashbench.cli.parameter_types import (
    BudgetType,
    Count,
    Duration,
    Fraction,
    HourlyRate,
    PathType,
)
from flashbench.cli.report_file import ReportFile
from flashbench.errors import InvalidInputError
from flashbench.metric import METRICS
from flashbench.operations.chosen import chosen

TABLES = ("text", "markdown", "csv", "json")
FORMATS = (*TABLES, "github", "junit")
# Of flashbench/verdict.py, which takes long to import.
VERDICTS = ("FASTER", "SLOWER", "FASTER?", "SLOWER?", "SAME", "UNDECIDED", "WRONG", "NOT MEASURED")

# Parameters of the options below, for commands that refuse some of them.
GRID = frozenset({"operation", "presets", "shapes", "dtypes", "causal", "layout", "device"})
EFFORT = frozenset({"samples", "min_sample", "threads", "seed"})
RULE = frozenset({"metric", "tolerance", "confidence"})
PROCESSES = frozenset({"processes", "workers"})

Command = Callable[..., int]
Option = Callable[[Command], Command]


def together(*options: Option) -> Option:
    """One decorator for several options, in the order that help lists them."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def _shapes(
    context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> tuple[str, ...]:
    """Refuse an invalid shape before anything is built or read."""
    try:
        operation = operations.named(context.params["operation"])
        for text in texts:
            operation.parse(text)
    except InvalidInputError as error:
        raise click.BadParameter(str(error), context, parameter) from None
    return texts


def _operation(context: click.Context, parameter: click.Parameter, name: str | None) -> str:
    """Refuse an unknown operation before its shapes are read."""
    try:
        return chosen(name, of_revisions=context.info_name != "run")
    except InvalidInputError as error:
        raise click.BadParameter(str(error), context, parameter) from None


# Cases and device.
grid_options = together(
    click.option(
        "--operation",
        metavar="NAME",
        is_eager=True,
        callback=_operation,
        help=f"What is computed: {', '.join(operations.BUILT_IN)}, or module:name of your own.  "
        "[default: that of [tool.flashbench.project], else attention]",
    ),
    click.option(
        "--preset",
        "presets",
        metavar="NAME",
        multiple=True,
        help=f"Shapes to measure; for attention: {', '.join(operations.ATTENTION.presets)}; "
        "repeatable.  [default: headline]",
    ),
    click.option(
        "--shape",
        "shapes",
        multiple=True,
        callback=_shapes,
        metavar="SHAPE",
        help="1,8,512,64 or b1-h8-g2-q512-k1024-d64; for other operations rows=1024,4096,dim=4096.",
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
        type=click.Choice(MASK_REQUESTS),
        default="both",
        show_default=True,
        help="With the causal mask, without it, or both; or aligned at the bottom right.",
    ),
    click.option(
        "--layout",
        type=click.Choice(LAYOUTS),
        default=LAYOUTS[0],
        show_default=True,
        help="Order of q, k, v in memory: bshd is (batch, length, heads, head dim). They are "
        "passed as views in the usual order.",
    ),
    click.option(
        "--device",
        type=click.Choice(["auto", "cpu", "cuda"]),
        default="auto",
        show_default=True,
        help="auto: cuda if there is one.",
    ),
)

hourly_rate_option = click.option(
    "--hourly-rate",
    type=HourlyRate(),
    help="Price of an hour of the device, e.g. 2.50usd.  [default: that of its name in "
    "[tool.flashbench.prices]]",
)

threads_option = click.option("--threads", type=Count(1, 4096), help="CPU threads of torch.")
seed_option = click.option(
    "--seed",
    type=Count(0, 2**53),
    default=defaults.SEED,
    show_default=True,
    help="Of the inputs, and of the order in which cases and candidates are measured.",
)

# Samples, threads, seed, budget and time-out.
effort_options = together(
    click.option(
        "--samples",
        type=Count(2, 100_000),
        default=defaults.SAMPLES,
        show_default=True,
        help="Per launch, metric and candidate; slow calls get fewer.",
    ),
    click.option(
        "--min-sample",
        type=Duration(),
        help="A sample averages as many calls as take this long.  [default: 2ms cpu, 100us cuda]",
    ),
    threads_option,
    seed_option,
    click.option(
        "--budget",
        type=BudgetType(),
        help="Device time to spend, or money, with builds and their checks: 60s, 10m, 0.50usd; a "
        "hard stop.",
    ),
    click.option(
        "--timeout",
        type=Duration(),
        default=f"{defaults.TIMEOUT_SECONDS:g}s",
        show_default=True,
        help="For one candidate's check, or one block of its samples.",
    ),
    hourly_rate_option,
)


def build_options(timeout: str = "--build-timeout", retry: str = "--retry-build") -> Option:
    """For commands that build first. timeout, retry: the names of the flags."""
    return together(
        click.option(
            timeout,
            "build_timeout",
            type=Duration(),
            default=f"{defaults.BUILD_TIMEOUT_SECONDS / 60:g}m",
            show_default=True,
            help="For one build; an import and its calls get at most 2m.",
        ),
        click.option(retry, "retry_build", is_flag=True, help="Retry builds that failed before."),
    )


# For commands that build many commits.
jobs_option = click.option(
    "-j", "--jobs", type=Count(1, 256), help="Builds at once.  [default: cores, 4 at most]"
)


workers_option = click.option(
    "--workers",
    type=click.Choice(["auto", "forked", "fresh"]),
    default="auto",
    show_default=True,
    help="Processes of launches. forked: from one that has imported torch; fresh: each imports it, "
    "for candidates that a fork disturbs; auto: forked on Linux.",
)
# For commands that measure revisions side by side.
processes_options = together(
    click.option(
        "--processes",
        type=click.Choice(["auto", "shared", "paired"]),
        default="auto",
        show_default=True,
        help="shared: one process per launch for all revisions; paired: one for each, in turns; "
        "auto: paired, but shared for flashbench's own kernel, which leaves nothing in a process.",
    ),
    workers_option,
)


def launches_option(
    default: int, help: str = "Processes that measure each case.", *, least: int = 1
) -> Option:
    """The number of launches."""
    count = Count(least, 10_000)
    return click.option("--launches", type=count, default=default, show_default=True, help=help)


def run_file_option(of: str) -> Option:
    """For commands that also write a report. of: the command."""
    return click.option(
        "--run-file",
        type=PathType(folder=False),
        metavar="FILE",
        help=f"Where to save the measurements.  [default: {of}-<date>-<time>.json]",
    )


def run_file_options(of: str, resume: str) -> Option:
    """For commands that measure two builds. of: the command; resume: help of --resume."""
    return together(
        run_file_option(of),
        click.option("--resume", type=PathType(folder=False), metavar="FILE", help=resume),
    )


force_option = click.option(
    "--force",
    is_flag=True,
    help="Replace an existing run file. Without it, one with the same plan is resumed and any "
    "other is refused.",
)
# For commands that read or write the history.
results_option = click.option(
    "--results",
    type=PathType(file=False),
    help="asv's results folder  [default: .asv/results of the repository].",
)
# For commands that take ranges of commits.
first_parent_option = click.option(
    "--first-parent", is_flag=True, help="Follow only the first parent of merges."
)
all_parents_option = click.option(
    "--all-parents",
    is_flag=True,
    help="Give commits of merged branches their own points, and pages; by default a merge stands "
    "for its branch.",
)

# For a table without a gate.
table_options = together(
    click.option(
        "--format", "output_format", type=click.Choice(TABLES), default="text", show_default=True
    ),
    click.option(
        "-o", "--output", type=ReportFile(), help="Write the table there instead of to stdout."
    ),
)

# For a table of cases: which rows and columns, in what order.
ARRANGEMENT = {"columns", "sort", "only", "group"}
arrangement_options = together(
    click.option(
        "--columns",
        metavar="NAMES",
        help="Only these columns, by key or heading, with commas between; `all` for all of them.",
    ),
    click.option(
        "--sort",
        metavar="NAME",
        help="Order rows by a column, or by shape, batch, heads, length, head_dim, dtype, mask or "
        "device; with `-` before it, the largest first.",
    ),
    click.option(
        "--only",
        type=click.Choice(VERDICTS, case_sensitive=False),
        multiple=True,
        help="Only rows with this verdict; repeatable. Totals and exit code stay those of all.",
    ),
    click.option(
        "--group", metavar="NAME", help="Group rows by a column or a part of the case, as --sort."
    ),
)


def metric_option(help: str) -> Option:
    """The metric of a verdict, or of what is shown."""
    return click.option("--metric", type=click.Choice(METRICS), help=help)


def tolerance_option(
    help: str = "Largest change that does not matter.", default: str = f"{defaults.TOLERANCE:.0%}"
) -> Option:
    """What a verdict ignores."""
    kind = Fraction(0, 1)
    return click.option("--tolerance", type=kind, default=default, show_default=True, help=help)


def confidence_option(help: str, default: str = f"{defaults.CONFIDENCE:.0%}") -> Option:
    """Of a verdict's intervals."""
    kind = Fraction(0.5, 1)
    return click.option("--confidence", type=kind, default=default, show_default=True, help=help)


JOINT = "Joint confidence of all intervals in the table."
# The decision rule of verdicts.
decision_options = together(
    metric_option("Time to judge by.  [default: wall on the CPU, gpu_warm on a GPU]"),
    click.option(
        "--against",
        type=click.Choice(("sdpa", "best")),
        default="sdpa",
        show_default=True,
        help="One run file: the default baseline (SDPA for attention), or the best on each case.",
    ),
    tolerance_option(),
    confidence_option(JOINT),
)

# For a table of verdicts: where it goes.
format_options = together(
    click.option(
        "--format",
        "output_format",
        type=click.Choice(FORMATS),
        default="text",
        show_default=True,
        help="How to print the table. `github`: log annotations, and the table in the job summary; "
        "`junit`: one test case per row.",
    ),
    click.option(
        "-o",
        "--output",
        type=ReportFile(),
        help="Write the table there instead of to stdout; with `github`, also write a table that "
        "fits a comment.",
    ),
)
# The rule, too.
report_options = together(decision_options, format_options)
