"""`flashbench publish`: the history as a folder of pages that open from a file, offline."""

from pathlib import Path

import click

from flashbench.cli.measuring import tell
from flashbench.cli.options import results_option
from flashbench.cli.parameter_types import PathType
from flashbench.errors import Exit, NotMeasuredError
from flashbench.settings import SettingsCommand


@click.command(
    "publish",
    cls=SettingsCommand,
    epilog="Defaults: [tool.flashbench.publish] of pyproject.toml.",
    help="Make a site of the measured history: graphs with intervals, changes, failed builds, the "
    "latest verdicts, a page a commit. It is a folder of files that loads nothing from anywhere "
    "else: open its index.html, or copy it to any web server. Only what changed is written again.",
)
@click.option(
    "-o",
    "--output",
    type=PathType(file=False),
    help="The folder of the site: a new or empty one, or that of an earlier call [default: "
    ".asv/site of the repository].",
)
@results_option
@click.option("--revision", default="HEAD", show_default=True, help="The last commit to show.")
@click.option(
    "--all-parents",
    is_flag=True,
    help="Commits of merged branches have pages and points of their own; without it a merge stands "
    "for all that it merged.",
)
@click.option("--machine", help="Only of this machine.")
def command(
    output: Path | None,
    results: Path | None,
    revision: str,
    all_parents: bool,
    machine: str | None,
) -> int:
    from flashbench.history.folder import results_folder
    from flashbench.revisions import resolve
    from flashbench.revisions.git import root_of
    from flashbench.site.collect import Source, collect
    from flashbench.site.publish import publish

    repository = root_of(Path.cwd())
    resolve(repository, revision)  # what is no commit is refused before results are looked for
    results = results_folder(results, repository)
    output = output or repository / ".asv" / "site"
    content = collect(Source(repository, results, revision, not all_parents, machine))
    for note in content.notes:
        tell(note)
    if not content.graphs and not content.history.gaps and not content.latest:
        fix = "measure some with `asv run`, or choose others with --revision"
        if content.history.off_axis:
            fix = "choose others with --revision, or call it in the repository that was measured"
        raise NotMeasuredError(
            f"{results}: nothing is known of the {len(content.history.commits)} commits up to "
            f"{revision}; {fix}"
        )
    made = publish(content, output)
    click.echo(
        f"{len(content.history.commits)} commits, {len(content.graphs)} series: "
        f"{made.written} of {made.files} files written, {made.removed} removed",
        err=True,
    )
    click.echo(output / "index.html")
    return Exit.PASS
