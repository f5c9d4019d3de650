"""The options that several commands share."""

from collections.abc import Callable, Sequence

import click

from flashbench import defaults
from flashbench.cli.parameter_types import (
    BudgetType,
    Count,
    Duration,
    Fraction,
    HourlyRate,
    PathType,
)
from flashbench.cli.report_file import ReportFile
from flashbench.metric import DEFAULTS_IN_HELP, METRICS
from flashbench.outcome import Outcome

TABLES = ("text", "markdown", "csv", "json")
FORMATS = (*TABLES, "github", "junit")
VERDICTS = tuple(one.value for one in Outcome)

# Parameters of the options below, for commands that refuse some of them.
EFFORT_OPTIONS = frozenset({"samples", "min_sample", "threads", "seed"})
RULE_OPTIONS = frozenset({"metric", "tolerance", "confidence"})
PROCESS_OPTIONS = frozenset({"processes", "workers"})

_Command = Callable[..., int]
Option = Callable[[_Command], _Command]
Default = Callable[[click.Context], int]


def together(*options: Option) -> Option:
    """One decorator for several options, in the order that help lists them."""

    def add(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def candidate_option(metavar: str, help: str, *, many: bool = False) -> Option:
    """What is measured."""
    name = "candidates" if many else "candidate"
    return click.option("--candidate", name, multiple=many, metavar=metavar, help=help)


def case_option(help: str, metavar: str = "CASE") -> Option:
    """Cases by their names; repeatable."""
    return click.option("--case", "cases", multiple=True, metavar=metavar, help=help)


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
    help="Seed of the inputs, and of the order in which cases and candidates are measured.",
)


def timeout_option(help: str, default: str) -> Option:
    """The time-out of a step."""
    kind = Duration()
    return click.option("--timeout", type=kind, default=default, show_default=True, help=help)


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
        help="Device time to spend, which leaves out builds and their checks, or money, which pays "
        "for them too: 60s, 10m, 0.50usd; a hard stop.",
    ),
    timeout_option(
        "For one candidate's check, or one block of its samples.", f"{defaults.TIMEOUT_SECONDS:g}s"
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


def jobs_option(help: str = "Builds at once.  [default: cores, 4 at most]") -> Option:
    """For commands that build many commits."""
    return click.option("-j", "--jobs", type=Count(1, 256), help=help)


def stage_option(
    name: str, choices: Sequence[str], help: str, default: str | None = None
) -> Option:
    """What a build is checked for; name: of the parameter; required without a default."""
    kind, required = click.Choice(choices), default is None
    return click.option(
        "--for", name, type=kind, default=default, required=required, show_default=True, help=help
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
    default: int | Default,
    help: str = "Processes that measure each case.",
    *,
    least: int = 1,
) -> Option:
    """The number of launches. default: perhaps a function of the options declared before."""
    count = Count(least, 10_000)
    fixed, chosen = (None, default) if callable(default) else (default, lambda context: default)
    return click.option(
        "--launches",
        type=count,
        default=fixed,
        show_default=True,
        callback=lambda context, _, value: value or chosen(context),
        help=help,
    )


def resume_option(help: str) -> Option:
    """The run file to complete."""
    return click.option("--resume", type=PathType(folder=False), metavar="FILE", help=help)


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
        resume_option(resume),
    )


def force_option(
    help: str = "Replace an existing run file. Without it, one with the same plan is resumed and "
    "any other is refused.",
) -> Option:
    """Replace what exists."""
    return click.option("--force", is_flag=True, help=help)


def machine_option(help: str = "Only this machine.") -> Option:
    """A machine's name in the history."""
    return click.option("--machine", help=help)


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


def format_option(
    choices: Sequence[str], help: str | None = None, name: str = "output_format"
) -> Option:
    """How to print the result; the first choice is the default. name: of the parameter."""
    kind = click.Choice(choices)
    return click.option(
        "--format", name, type=kind, default=choices[0], show_default=True, help=help
    )


def output_option(help: str, kind: PathType | None = None, *, required: bool = False) -> Option:
    """Where to write. kind: by default a report."""
    return click.option("-o", "--output", type=kind or ReportFile(), required=required, help=help)


def exit_zero_option(help: str) -> Option:
    """Let the exit code not depend on the result."""
    return click.option("--exit-zero", is_flag=True, help=help)


def dry_run_option(help: str) -> Option:
    """Show what would be started."""
    return click.option("--dry-run", is_flag=True, help=help)


def no_wait_option(help: str) -> Option:
    """Return once a job is started."""
    return click.option("--no-wait", is_flag=True, help=help)


# For a table without a gate.
table_options = together(
    format_option(TABLES), output_option("Write the table there instead of to stdout.")
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


def metric_option(help: str, *, many: bool = False) -> Option:
    """The metric of a verdict, or of what is shown."""
    name = "metrics" if many else "metric"
    return click.option("--metric", name, type=click.Choice(METRICS), multiple=many, help=help)


def tolerance_option(
    help: str = "Largest change that does not matter.", default: str = f"{defaults.TOLERANCE:.0%}"
) -> Option:
    """What a verdict ignores."""
    kind = Fraction(0, 1)
    return click.option("--tolerance", type=kind, default=default, show_default=True, help=help)


def confidence_option(help: str, default: str = f"{defaults.CONFIDENCE:.0%}") -> Option:
    """The confidence of a verdict's intervals."""
    kind = Fraction(0.5, 1)
    return click.option("--confidence", type=kind, default=default, show_default=True, help=help)


JOINT = "Joint confidence of all intervals in the table."
# The decision rule of verdicts.
decision_options = together(
    metric_option(f"Time to judge by.  [default: {DEFAULTS_IN_HELP}]"),
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
    format_option(
        FORMATS,
        "How to print the table. `github`: log annotations, and the table in the job summary; "
        "`junit`: one test case per row.",
    ),
    output_option(
        "Write the table there instead of to stdout; with `github`, also write a table that fits a "
        "comment."
    ),
)
# The rule, too.
report_options = together(decision_options, format_options)
