"""`flashbench publish`: write the history as a folder of pages that open from disk, offline."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flashbench.cli.measuring import tell
from flashbench.cli.options import (
    all_parents_option,
    machine_option,
    output_option,
    results_option,
)
from flashbench.cli.parameter_types import PathType
from flashbench.cli.settings import SettingsCommand
from flashbench.errors import Exit, NotMeasuredError

if TYPE_CHECKING:
    from flashbench.site.source import Source, SourceState
    from flashbench.site.writer import Published


@click.command(
    "publish",
    cls=SettingsCommand,
    epilog="Defaults: [tool.flashbench.publish] of pyproject.toml.",
    help="Write the measured history as a site: graphs with intervals, changes, failed builds, the "
    "latest verdicts, a page per commit. The site is a self-contained folder: open its "
    "index.html, or copy it to any web server. Only changed files are rewritten.",
)
@output_option(
    "The site's folder: new, empty, or written by an earlier call [default: .asv/site of the "
    "repository].",
    PathType(file=False),
)
@results_option
@click.option("--revision", default="HEAD", show_default=True, help="The last commit to show.")
@all_parents_option
@machine_option()
def command(
    output: Path | None, results: Path | None, revision: str, all_parents: bool, machine: str | None
) -> int:
    # Nothing is large enough for numpy's threads, which wait busily and start anew in each fork.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from flashbench.history.folder import results_folder
    from flashbench.revisions import resolve
    from flashbench.revisions.git import root_of
    from flashbench.site import writer
    from flashbench.site.source import Source, source_state

    repository = root_of(Path.cwd())
    resolve(repository, revision)  # refuse what is not a commit before searching for results
    results = results_folder(results, repository)
    output = output or repository / ".asv" / "site"
    source = Source(repository, results, revision, not all_parents, machine)
    state = source_state(source)
    made = writer.unchanged(output, state.key) or _publish(source, output, state)
    for note in made.summary.notes:
        tell(note)
    click.echo(
        f"{made.summary.commits} commits, {made.summary.series} series: "
        f"{made.written} of {made.files} files written, {made.removed} removed",
        err=True,
    )
    click.echo(output / "index.html")
    return Exit.PASS


def _publish(source: "Source", output: Path, state: "SourceState") -> "Published":
    from flashbench.site.gather import gather
    from flashbench.site.publish import publish

    content = gather(source)
    if content.graphs or content.history.gaps or content.latest:
        return publish(content, output, state.key_if_same)
    for note in content.notes:
        tell(note)
    fix = "measure some with `asv run`, or choose others with --revision"
    if content.history.off_axis:
        fix = "choose others with --revision, or run this in the measured repository"
    raise NotMeasuredError(
        f"{source.results}: no results for the {len(content.history.commits)} commits up to "
        f"{source.revision}; {fix}"
    )
