"""`flashbench builds`: list what is known about commits, without building anything."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashbench.cli.options import first_parent_option, table_options
from flashbench.cli.output import deliver
from flashbench.cli.parameter_types import Number
from flashbench.cli.settings import SettingsCommand
from flashbench.errors import Exit, InvalidInputError

if TYPE_CHECKING:
    from flashbench.builds.pruning import Entry


@click.command(
    "builds",
    cls=SettingsCommand,
    epilog="Exit codes: 0 regardless of the statuses, 2 usage, 4 the cache is in use. Builds are "
    "made by `flashbench build`, `compare`, `bisect` and `asv run`.",
)
@click.argument("revisions", nargs=-1, metavar="[REV|A..B] ...")
@click.option("--failed", is_flag=True, help="Only those that failed.")
@first_parent_option
@click.option("--prune", is_flag=True, help="Remove builds unused for long, instead of listing.")
@click.option(
    "--keep-days",
    type=Number(),
    default=30,
    show_default=True,
    help="--prune: keep builds used within this many days,",
)
@click.option("--keep-gb", type=Number(), help="up to this total size.")
@table_options
def command(revisions: tuple[str, ...], **options: Any) -> int:
    """List the builds of this repository's commits: status, reason, cost.

    Without a revision: every commit ever tried here, oldest first. With revisions or ranges: those,
    even if nothing is known about them. --prune shrinks the cache of all repositories; the records
    of commits stay.
    """
    from flashbench.builds import cache_directory, pruning, toolchain
    from flashbench.revisions import ledger, read
    from flashbench.revisions.commits import commits_of, known_commits
    from flashbench.revisions.prepare import recipe_of
    from flashbench.views import builds

    cache = cache_directory()
    if options["prune"]:
        click.echo(_prune(cache, options["keep_days"], options["keep_gb"]))
        return Exit.PASS
    project = read(Path.cwd())
    repository = project.repository
    here = ledger.digest(toolchain.describe(recipe_of(project).variables))
    known = {outcome.commit: outcome for outcome in ledger.everything(cache, repository)}
    if revisions:
        first_parent = options["first_parent"]
        chosen = [
            r for text in revisions for r in commits_of(repository, text, first_parent=first_parent)
        ]
        ids = list(dict.fromkeys(revision.commit for revision in chosen if revision.commit))
    else:
        ids = list(known)
    commits = {commit.id: commit for commit in known_commits(repository, ids)}
    order = ids if revisions else list(commits)
    rows = [
        builds.BuildRow(
            name,
            commits[name].subject,
            known.get(name),
            is_current=name not in known or known[name].toolchain == here,
        )
        for name in order
        if name in commits
    ]
    if options["failed"]:
        rows = [row for row in rows if row.outcome is not None and row.outcome.status != "built"]
    deliver(
        builds.document(
            f"builds of {repository.name}",
            rows,
            [f"cache of all repositories: {_size(pruning.entries(cache))}"],
        ),
        options["output_format"],
        options["output"],
    )
    return Exit.PASS


def _prune(cache: Path, days: float, gigabytes: float | None) -> str:
    from flashbench.builds import pruning

    try:
        removed = pruning.prune(
            cache, days * 86400, math.inf if gigabytes is None else gigabytes * 1e9
        )
        return f"removed {_size(removed)}; {cache} has {_size(pruning.entries(cache))}"
    except OSError as error:
        raise InvalidInputError(f"{cache}: cannot be pruned: {error.strerror}") from None


def _size(found: "list[Entry]") -> str:
    size = sum(entry.size for entry in found)
    return f"{len(found)} builds and import roots, {size / 1e6:.1f} MB"
