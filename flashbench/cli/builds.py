"""`flashbench builds`: what is known of commits, without building anything."""

from pathlib import Path
from typing import Any

import click

from flashbench.cli.build import TABLES
from flashbench.cli.output import deliver
from flashbench.errors import Exit
from flashbench.settings import SettingsCommand


@click.command(
    "builds",
    cls=SettingsCommand,
    epilog="Exit codes: 0 whatever the statuses are, 2 usage. Builds are made by `flashbench "
    "build`, `compare`, `bisect` and `asv run`.",
)
@click.argument("revisions", nargs=-1, metavar="[REV|A..B] ...")
@click.option("--failed", is_flag=True, help="Only those that did not come to a good end.")
@click.option("--first-parent", is_flag=True, help="Of merges, only the branch merged into.")
@click.option("--format", "output_format", type=click.Choice(TABLES), default="text")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False))
def command(revisions: tuple[str, ...], **options: Any) -> int:
    """List the builds of this repository's commits: status, reason, cost.

    Without a revision: every commit that was ever tried here, the oldest first. With some, or with
    ranges: these, also where nothing is known of them.
    """
    from flashbench.build import cache_directory, toolchain
    from flashbench.project import ledger, read
    from flashbench.project.commits import commits_of, known_commits
    from flashbench.project.prepare import recipe_of
    from flashbench.views import builds

    project, cache = read(Path.cwd()), cache_directory()
    repository = project.repository
    here = ledger.digest(toolchain.describe(recipe_of(project).variables))
    known = {tried.commit: tried for tried in ledger.everything(cache, repository)}
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
        builds.Row(
            name,
            commits[name].subject,
            known.get(name),
            is_current=name not in known or known[name].toolchain == here,
        )
        for name in order
        if name in commits
    ]
    if options["failed"]:
        rows = [row for row in rows if row.tried is not None and row.tried.status != "built"]
    deliver(
        builds.document(f"builds of {repository.name}", rows),
        options["output_format"],
        options["output"],
    )
    return Exit.PASS
