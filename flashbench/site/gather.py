"""Gather the content of the site from a repository and asv's results folder."""

from flashbench.builds.builder import cache_directory
from flashbench.cost.money import read_prices
from flashbench.history import profiles
from flashbench.history.axis import axis
from flashbench.history.changes import find
from flashbench.history.read import read
from flashbench.revisions import ledger
from flashbench.site.content import Content, Graph, drawn
from flashbench.site.jumps import jumps
from flashbench.site.latest import latest_tables
from flashbench.site.project_name import project_name
from flashbench.site.source import Source


def gather(source: Source) -> Content:
    """Read everything that the site shows. Raises InvalidInputError."""
    commits = axis(source.repository, source.revision, first_parent=source.first_parent)
    cache = cache_directory()
    failed = ledger.failures(cache, source.repository)
    prices = read_prices(source.repository)
    history = read(
        source.results, commits, failed=failed, machine=source.machine, cache=cache, prices=prices
    )
    series = drawn(history)
    judged = [one for one in series if not one.baseline]  # SDPA's own changes are not the project's
    searched = find(history, judged)
    found = dict(zip(map(id, judged), searched.changes, strict=True))
    graphs = []
    for one in series:
        changes = found.get(id(one)) or ()
        graphs.append(Graph(one, changes, () if one.baseline else jumps(one.judged, changes)))
    latest, unreadable = latest_tables(history, source.results)
    notes = [*history.notes, *unreadable]
    if history.off_axis:
        count = len(history.off_axis)
        notes.append(
            f"{count} measured commit{'s' * (count != 1)} not among those of {source.revision}"
            f"{history.off_axis_hint}"
        )
    kept = profiles.read(source.results, [one.name for one in history.machines], notes)
    return Content(
        project_name(source.repository),
        history,
        tuple(graphs),
        latest,
        tuple(notes),
        tuple(kept),
        searched.factors,
    )
