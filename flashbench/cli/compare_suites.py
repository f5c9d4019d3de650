"""`flashbench compare REV_A REV_B --asv PATTERN`, or --pytest TEST: a project's own benchmarks."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashbench.cli.grid_options import GRID_OPTIONS
from flashbench.cli.measuring import refuse_given, tell
from flashbench.cli.options import EFFORT_OPTIONS, PROCESS_OPTIONS
from flashbench.cli.report_file import refuse_run_file
from flashbench.cli.run_file import tell_end
from flashbench.errors import InvalidInputError
from flashbench.measuring.claim import new_run_file
from flashbench.measuring.requested import price_options
from flashbench.revisions import WORKTREE

if TYPE_CHECKING:
    from flashbench.other_tools.judge import OtherToolsReport

# What asv and pytest-benchmark have their own settings for, or what benchmarks of any kind lack.
_REFUSED = (
    GRID_OPTIONS | EFFORT_OPTIONS | PROCESS_OPTIONS | {"metric", "against", "resume", "hourly_rate"}
)


def report_of_suites(context: click.Context, options: dict[str, Any]) -> "OtherToolsReport | None":
    """The report of both revisions; None if they are one build, which is not measured.

    NotMeasuredError (exit code 4) if one cannot be built, or on an interrupt; the measurements so
    far are in the file.
    """
    from flashbench.measuring.progress import make_progress
    from flashbench.suites.comparing import NOT_OF_SUITES, SuiteRequest, compare_suites
    from flashbench.suites.judging import report_suite

    if options["asv"] and options["tests"]:
        raise InvalidInputError("--asv and --pytest are two suites: compare one, then the other")
    refuse_given(context, _REFUSED.__contains__, NOT_OF_SUITES)
    path = options["run_file"] or new_run_file("compare")
    refuse_run_file(options["output"], path)
    a, b = options["a"], options["b"] or WORKTREE
    request = SuiteRequest(
        a=a,
        b=b,
        asv=options["asv"] or "",
        tests=options["tests"],
        tolerance=options["tolerance"],
        confidence=options["confidence"],
        launches=options["launches"],
        timeout=options["timeout"],
        budget=price_options(options)["budget_seconds"],
        build_timeout=options["build_timeout"],
        retry_build=options["retry_build"],
        even_if_same=options["even_if_same"],
    )
    end = compare_suites(request, path, make_progress(), Path.cwd(), force=options["force"])
    if end.run is None:
        return None
    words = ["flashbench", "compare", a, b, *(["--asv", request.asv] if request.asv else [])]
    words += [word for test in request.tests for word in ("--pytest", test)]
    again = shlex.join([*words, "--run-file", str(path)])
    tell(f"{path}: {len(end.run.launches)} launches, {end.run.seconds:.0f} s")
    tell_end(end, path, again, options)
    return report_suite(end.run)
