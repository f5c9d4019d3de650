"""`flashbench compare`: the gate. One run file: candidate against SDPA. Two: B against A. Two git
revisions: build both and measure them in the same launches until every case is decided."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashbench.cli.measuring import is_given, refuse_given, tell
from flashbench.cli.options import (
    ARRANGEMENT,
    RULE,
    arrangement_options,
    build_options,
    effort_options,
    force_option,
    grid_options,
    launches_option,
    processes_options,
    report_options,
    run_file_options,
)
from flashbench.cli.output import arranged, deliver, judging_options, wants_times
from flashbench.errors import Exit, InvalidInputError
from flashbench.inputs import descriptor
from flashbench.revisions import WORKTREE
from flashbench.settings import SettingsCommand

if TYPE_CHECKING:
    from flashbench.other_tools.judge import ForeignReport
    from flashbench.report import Report
    from flashbench.table import Document

ALLOWABLE = ("undecided", "not-measured", "different-machine")
_OF_FILES = {"a", "b", "against", "output_format", "output", "allow", "exit_zero", "plot"}
_OF_FILES |= {*RULE, *ARRANGEMENT}
# Formats whose readers do not see stderr.
_REPORTS = ("markdown", "json", "github", "junit")


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
    "measured, else 3 if any is UNDECIDED, else 0.",
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
@click.option("--exit-zero", is_flag=True, help="Exit 0 whatever the verdicts are.")
@grid_options
@launches_option(40, "At most, per case.", least=2)
@effort_options
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
@force_option
@processes_options
@build_options()
@click.pass_context
def command(context: click.Context, /, **options: Any) -> int:
    from flashbench.errors import NotMeasuredError
    from flashbench.verdict import exit_code
    from flashbench.views import speedup

    a, b = options["a"], options["b"]
    if "" in (a, b):  # an unset shell variable
        raise InvalidInputError("an empty argument names no file and no revision")
    if options["asv"] is not None or options["tests"]:
        return _of_suites(context, options)
    if _is_file(a) or (b is not None and _is_file(b)):
        refuse_given(
            context,
            lambda name: name not in _OF_FILES,
            "is for measuring two revisions; drop it, or name revisions instead of files",
        )
        _require_files(a, b)
        judged = _of_other_tools(options)
        if judged is not None:
            return _deliver_judged(judged, options)
        report = _of_files(options)
    else:
        from flashbench.cli.compare_revisions import compare_revisions
        from flashbench.views import unmeasured

        arranged(speedup.empty_pair(), options)  # refuse an unknown column before measuring
        what = f"{a} against {b or WORKTREE}"
        try:
            measured = compare_revisions(context, options)
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
    from flashbench.cli.compare_suites import compare_suites
    from flashbench.views import unmeasured

    judged = compare_suites(context, options)
    if judged is None:
        what = f"{options['a']} against {options['b'] or WORKTREE}"
        _deliver(unmeasured.same_build(what), options)
        return Exit.PASS
    return _deliver_judged(judged, options)


def _deliver_judged(judged: "ForeignReport", options: dict[str, Any]) -> int:
    from flashbench.verdict import exit_code
    from flashbench.views import other_tools

    _deliver(other_tools.document(judged), options)
    verdicts = judged.report.verdicts
    return Exit.PASS if options["exit_zero"] else exit_code(verdicts, options["allow"])


def _deliver(table: "Document", options: dict[str, Any]) -> None:
    deliver(arranged(table, options), options["output_format"], options["output"], options["plot"])


def _is_file(text: str) -> bool:
    """A file of any kind, a folder of run files, or a name that can only mean a file."""
    path = Path(text)
    try:
        return (
            (path.exists() and not path.is_dir())  # a pipe too: its reader reports what it is
            or text.endswith((".json", "/"))
            or descriptor(path) is not None
            or any(path.glob("*.json"))
        )
    except (OSError, ValueError):  # too long for a path, or malformed
        return False


def _require_files(a: str, b: str | None) -> None:
    for side, other in ((a, b), (b, a)):
        if side is not None and other is not None and not _is_file(side):
            raise InvalidInputError(f"{side}: no such file; {other} is one, so both must be")


def _of_other_tools(options: dict[str, Any]) -> "ForeignReport | None":
    """The report of files from asv, pytest-benchmark or pyperf, or of a folder of files; None if
    neither."""
    from flashbench.other_tools.judge import report_foreign
    from flashbench.suites import suite_file

    if options["b"] is None and suite_file.is_suite(Path(options["a"])):
        return _of_suite_file(Path(options["a"]))
    return report_foreign(
        Path(options["a"]),
        None if options["b"] is None else Path(options["b"]),
        metric=options["metric"],
        against=options["against"],
        tolerance=options["tolerance"],
        alpha=1 - options["confidence"],
        allow=options["allow"],
    )


def _of_suite_file(path: Path) -> "ForeignReport":
    """The verdicts of an earlier --asv or --pytest, by the rule that ended it unless flags say
    otherwise."""
    from flashbench.suites import suite_file
    from flashbench.suites.judging import report_suite

    context = click.get_current_context()
    given = context.params
    own = {
        name: given[name] if is_given(context, name) else None
        for name in ("tolerance", "confidence")
    }
    alpha = None if own["confidence"] is None else 1 - own["confidence"]
    return report_suite(suite_file.load(path), own["tolerance"], alpha)


def _of_files(options: dict[str, Any]) -> "Report":
    from flashbench.report import report_one, report_two
    from flashbench.run_reader import load

    a, b = Path(options["a"]), options["b"] and Path(options["b"])
    if b is None:
        run = load(a)
        return report_one(run, against=options["against"], **judging_options(run, options))
    if options["against"] != "sdpa":
        raise InvalidInputError(
            "--against best is for one run file; two are compared over the baseline"
        )
    runs = load(a), load(b)
    return report_two(*runs, allow=options["allow"], **judging_options(None, options))
