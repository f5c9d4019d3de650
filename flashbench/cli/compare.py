"""`flashbench compare`: the gate. One run file: candidate against SDPA. Two: B against A. Two git
revisions: build both and measure them in the same launches until every case is decided."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashbench import defaults
from flashbench.cli.grid_options import grid_options
from flashbench.cli.measuring import refuse_given, tell
from flashbench.cli.options import (
    ARRANGEMENT,
    RULE_OPTIONS,
    arrangement_options,
    build_options,
    effort_options,
    exit_zero_option,
    force_option,
    launches_option,
    processes_options,
    report_options,
    run_file_options,
)
from flashbench.cli.output import arranged, deliver, rules_of, wants_times
from flashbench.cli.settings import SettingsCommand
from flashbench.errors import Exit, InvalidInputError, NotMeasuredError
from flashbench.revisions import WORKTREE

if TYPE_CHECKING:
    from flashbench.other_tools.judge import OtherToolsReport
    from flashbench.table import Document

ALLOWABLE = ("undecided", "not-measured", "different-machine")
_OF_FILES = {"a", "b", "against", "output_format", "output", "allow", "exit_zero", "plot"}
_OF_FILES |= {*RULE_OPTIONS, *ARRANGEMENT}
# Formats whose readers do not see stderr.
_REPORTS = ("markdown", "json", "github", "junit")


def _launches(context: click.Context) -> int:
    """The default depends on --budget, which is declared, and so processed, before."""
    return defaults.most_launches(budget=context.params["budget"] is not None)


@click.command(
    "compare",
    cls=SettingsCommand,
    epilog="Defaults: [tool.flashbench.compare] of pyproject.toml; what is built and called: "
    "[tool.flashbench.project]. A name that is also a file means the file; refs/heads/NAME is "
    "the branch.",
    help="One run file A: is each candidate slower than the baseline? Two: is B slower than A, "
    "with the baseline as the control? Files may come from asv, pytest-benchmark or pyperf, "
    "or be folders of such files, one per process. Two git revisions (WORKTREE: the working "
    "tree, and the default for B): builds both and measures them in the same launches until every "
    "case is decided, or --launches or --budget are spent; identical builds are not "
    "measured. Exits 1 if any case is SLOWER or wrong, else 4 if any could not be built or "
    "measured, else 3 if any is UNDECIDED or SLOWER?, else 0.",
)
@click.argument("a")
@click.argument("b", required=False)
@report_options
@arrangement_options
@click.option(
    "--plot/--no-plot",
    default=None,
    help="Draw each interval as a bar around 1.0.  [default: on a terminal of 120 columns or more]",
)
@click.option(
    "--allow", type=click.Choice(ALLOWABLE), multiple=True, help="Let this pass; repeatable."
)
@exit_zero_option("Exit 0 regardless of the verdicts.")
@grid_options
@effort_options
@launches_option(
    _launches,
    "At most, per case.  [default: 40, or with --budget what it pays for, up to 200]",
    least=2,
)
@run_file_options("compare", "Resume the run file of an earlier comparison of the same revisions.")
@click.option(
    "--even-if-same",
    is_flag=True,
    help="Measure even if both revisions are the same build. (`flashbench aa` compares one build "
    "with itself.)",
)
@click.option(
    "--asv",
    metavar="REGEX",
    help="Two revisions: measure these benchmarks of the asv suite here, whose names it finds.",
)
@click.option(
    "--pytest",
    "tests",
    multiple=True,
    metavar="TEST",
    help="Two revisions: measure these tests with pytest-benchmark, as tests/bench.py::test_x; "
    "repeatable.",
)
@force_option()
@processes_options
@build_options()
@click.pass_context
def command(context: click.Context, /, **options: Any) -> int:
    from flashbench.comparing.files import ONLY_REVISIONS, is_file, judge, one_file, require_files
    from flashbench.report import Report
    from flashbench.verdict import exit_code
    from flashbench.views import speedup

    a, b = options["a"], options["b"]
    if "" in (a, b):  # an unset shell variable
        raise InvalidInputError("an empty argument names no file and no revision")
    if options["asv"] is not None or options["tests"]:
        return _of_suites(context, options)
    if is_file(a) or (b is not None and is_file(b)):
        refuse_given(context, lambda name: name not in _OF_FILES, ONLY_REVISIONS)
        require_files(a, b)
        rules = rules_of(options)
        shared = {name: options[name] for name in ("against", "allow")}
        judged = judge(Path(a), None if b is None else Path(b), *rules, **shared)
        if same := one_file(a, b):
            tell(same)
        if not isinstance(judged, Report):
            return _deliver_judged(judged, options)
        report = judged
    else:
        from flashbench.cli.compare_revisions import report_of_revisions
        from flashbench.views import unmeasured

        arranged(speedup.empty_pair(), options)  # refuse an unknown column before measuring
        what = f"{a} against {b or WORKTREE}"
        try:
            measured = report_of_revisions(context, options)
        except NotMeasuredError as error:
            if options["output_format"] in _REPORTS:
                found = unmeasured.failed(what, str(error))
                try:
                    deliver(found, options["output_format"], options["output"])
                except InvalidInputError as undelivered:
                    tell(str(undelivered))  # the error is why nothing was measured
            raise
        if measured is None:
            deliver(unmeasured.same_build(what), options["output_format"], options["output"])
            return Exit.PASS
        report = measured
    if not report.comparisons:
        raise NotMeasuredError(
            f"{a}: nothing to compare: it has no candidate besides the baseline, or no "
            "baseline, or no case; `flashbench show` prints what it has"
        )
    times = wants_times(options, options["output_format"])
    document = speedup.document(report, gate=True, times=times)
    _deliver(document, options)
    return Exit.PASS if options["exit_zero"] else exit_code(report.verdicts, options["allow"])


def _of_suites(context: click.Context, options: dict[str, Any]) -> int:
    """Measure two revisions by the benchmarks that their project has."""
    from flashbench.cli.compare_suites import report_of_suites
    from flashbench.views import unmeasured

    judged = report_of_suites(context, options)
    if judged is None:
        what = f"{options['a']} against {options['b'] or WORKTREE}"
        _deliver(unmeasured.same_build(what), options)
        return Exit.PASS
    return _deliver_judged(judged, options)


def _deliver_judged(judged: "OtherToolsReport", options: dict[str, Any]) -> int:
    from flashbench.verdict import exit_code
    from flashbench.views import other_tools

    _deliver(other_tools.document(judged), options)
    verdicts = judged.report.verdicts
    return Exit.PASS if options["exit_zero"] else exit_code(verdicts, options["allow"])


def _deliver(table: "Document", options: dict[str, Any]) -> None:
    deliver(arranged(table, options), options["output_format"], options["output"], options["plot"])
