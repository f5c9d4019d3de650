"""`flashbench history`: where the speed of the project changed."""

from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flashbench.cli.options import (
    all_parents_option,
    case_option,
    confidence_option,
    exit_zero_option,
    machine_option,
    metric_option,
    results_option,
    table_options,
    tolerance_option,
)
from flashbench.cli.output import deliver
from flashbench.cli.settings import SettingsCommand
from flashbench.errors import Exit, InvalidInputError

if TYPE_CHECKING:
    from flashbench.history.model import Series


@click.command(
    "history",
    cls=SettingsCommand,
    epilog="Exit codes: 0 nothing is slower at the end of the range than at its beginning, 1 "
    "something is, 2 usage or invalid input, 3 too few commits were measured to tell, 4 none was "
    "measured. "
    "Defaults: [tool.flashbench.history] of pyproject.toml.",
)
@click.argument("revisions", metavar="[REV-RANGE]", required=False)
@machine_option()
@case_option(
    "Only series whose case, or benchmark with parameters, contains this text or matches this "
    "pattern (* and ?); repeatable.",
    "PATTERN",
)
@metric_option("Only this metric.")
@tolerance_option()
@confidence_option("Confidence of each change's interval.")
@all_parents_option
@click.option("--baselines", is_flag=True, help="Include the baselines.")
@results_option
@exit_zero_option("Exit 0 once the table is printed.")
@table_options
def command(
    revisions: str | None,
    machine: str | None,
    cases: tuple[str, ...],
    metric: str | None,
    tolerance: float,
    confidence: float,
    all_parents: bool,
    baselines: bool,
    results: Path | None,
    exit_zero: bool,
    output_format: str,
    output: Path | None,
) -> int:
    """Print where the measured series changed, and which commits may be responsible.

    Reads the results of `asv run` and `flashbench record`. Searches the ratio to the baseline for
    changes in the whole history up to the end of REV-RANGE (A..B, or B alone; HEAD by default),
    and prints those that may be in the range. A change is provisional, and does not change the
    exit code, until enough commits confirm it.
    """
    from flashbench.builds.builder import cache_directory
    from flashbench.cost.money import read_prices
    from flashbench.history import profiles
    from flashbench.history.axis import axis
    from flashbench.history.changes import find
    from flashbench.history.folder import results_folder
    from flashbench.history.read import read
    from flashbench.history.report import HistoryReport
    from flashbench.revisions import git, ledger
    from flashbench.views.history import document

    repository = git.root_of(Path.cwd())
    begin, end = _ends(revisions)
    commits = axis(repository, end, first_parent=not all_parents)
    since: frozenset[int] = frozenset()
    if begin is not None:
        before = {one.id for one in axis(repository, begin, first_parent=False)}
        since = frozenset(place for place, one in enumerate(commits) if one.id in before)
    cache = cache_directory()
    failed = ledger.failures(cache, repository)
    folder = results_folder(results, repository)
    prices = read_prices(Path.cwd())
    loaded = read(folder, commits, failed=failed, machine=machine, cache=cache, prices=prices)
    chosen = [
        one
        for one in loaded.series
        if (baselines or not one.baseline)
        and (metric is None or one.metric == metric)
        and _wanted(one, cases)
    ]
    if not chosen and loaded.series:
        raise InvalidInputError(
            f"none of the {len(loaded.series)} series of the history match --case and --metric; "
            "drop them to show all"
        )
    profile_notes: list[str] = []
    kept = [
        one
        for one in profiles.read(folder, [one.name for one in loaded.machines], profile_notes)
        if not cases or any(_matches(pattern, one.profile.case.id) for pattern in cases)
    ]
    report = HistoryReport(
        loaded,
        chosen,
        find(loaded, chosen, alpha=1 - confidence),
        since,
        revisions or "HEAD",
        tolerance,
        1 - confidence,
        [*profiles.changes(kept, commits, since), *profile_notes],
    )
    deliver(document(report), output_format, output)
    return Exit.PASS if exit_zero else report.exit_code


def _ends(text: str | None) -> tuple[str | None, str]:
    """The ends of A..B, A.. or B: the revision before the range, if any, and its last one."""
    if text is None or ".." not in text:
        return None, "HEAD" if text is None else text
    begin, _, end = text.partition("..")
    if not begin or ".." in end or end.startswith("."):
        raise InvalidInputError(f"invalid range {text[:100]!r}; write A..B")
    return begin, end or "HEAD"


def _wanted(series: "Series", patterns: tuple[str, ...]) -> bool:
    names = (series.case, series.name)
    return not patterns or any(_matches(pattern, name) for pattern in patterns for name in names)


def _matches(pattern: str, name: str) -> bool:
    return pattern in name or fnmatchcase(name, pattern)
