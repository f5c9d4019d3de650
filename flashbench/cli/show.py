"""`flashbench show`: print the table of a run file, in any format."""

from pathlib import Path
from typing import Any

import click

from flashbench.cli.options import arrangement_options, report_options
from flashbench.cli.output import arranged, deliver, judging_options, wants_times
from flashbench.cli.parameter_types import PathType
from flashbench.cli.settings import SettingsCommand
from flashbench.errors import Exit

VIEWS = ("speedup", "detail")


@click.command(
    "show",
    cls=SettingsCommand,
    epilog="Defaults: [tool.flashbench.show] of pyproject.toml.",
    help="Print the table of a run file. View `speedup` has one row per case with its verdict, "
    "`detail` the percentiles of every candidate. For a file from asv, pytest-benchmark or "
    "pyperf, or a folder of such files: its series. Exits 0 regardless of the verdicts; "
    "`compare` is the gate.",
)
@click.argument("file", metavar="RUN", type=PathType())
@click.option(
    "--view",
    type=click.Choice(VIEWS),
    default="speedup",
    show_default=True,
    help="speedup: a row per case, with its verdict; detail: the percentiles of every candidate.",
)
@report_options
@arrangement_options
@click.option(
    "--plot",
    is_flag=True,
    help="Draw each interval as a bar around 1.0; in the detail view, the distribution of times.",
)
def command(file: Path, view: str, plot: bool, **options: Any) -> int:
    from flashbench.other_tools.detect import is_other_tools
    from flashbench.run_reader import read_for_analysis
    from flashbench.suites.suite_file import is_suite
    from flashbench.views.of_run import document

    if is_suite(file):
        from flashbench.suites.judging import report_suite
        from flashbench.suites.suite_file import read as load_suite
        from flashbench.views import other_tools

        table = other_tools.document(report_suite(load_suite(file)))
    elif is_other_tools(file):
        from flashbench.other_tools.read import read
        from flashbench.views import other_tools

        table = other_tools.series_document(read(file, options["metric"]))
    else:
        run = read_for_analysis(file)
        table = document(
            run,
            view=view,
            plot=plot,
            times=wants_times(options, options["output_format"]),
            against=options["against"],
            **judging_options(run, options),
        )
    deliver(arranged(table, options), options["output_format"], options["output"], plot)
    return Exit.PASS
