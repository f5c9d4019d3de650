"""Write the site into a folder: only files that changed since the last time."""

import hashlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

from flashbench.site import encode, writer
from flashbench.site.case_pages import CasePages
from flashbench.site.commit_pages import CommitPages
from flashbench.site.content import Content, Graph, case_page, commit_page
from flashbench.site.heat_map import heat_map
from flashbench.site.pages import change_rows, listing_pages, viewer_data
from flashbench.site.standings import standings, with_changes
from flashbench.site.templating import static_files


def publish(content: Content, output: Path, inputs: Callable[[], str] = str) -> writer.Published:
    """Create or update the site in the folder `output`; its front page is `index.html`.

    inputs: makes the key of what the content was read from, once all is written. Raises
    InvalidInputError if the folder has other files or cannot be written.
    """
    history = content.history
    summary = writer.Summary("", len(history.commits), len(content.graphs), content.notes)
    with writer.opened(output) as site:
        changes = change_rows(content)
        commits = CommitPages(content, changes)
        cases = CasePages(content, changes)
        placed = with_changes(standings(content.graphs), history, content.factors)
        whole = dict(listing_pages(content, placed, changes, commits))
        whole |= static_files()
        whole["data/site.js"] = encode.script("flashbench.site", viewer_data(content, placed))
        for one in placed:
            if one.mean is not None:
                heat = heat_map(one, content.history.gaps) | {"id": one.mean.id}
                whole[f"data/heat/{one.mean.id}.js"] = encode.script("flashbench.heat", heat)
        for path, made in whole.items():
            key = hashlib.blake2b(made, digest_size=16).hexdigest()
            site.put(path, key, partial(bytes, made), listing=True)
        means = [one.mean for one in placed if one.mean is not None]
        for graph in (*content.graphs, *means):
            for folder, part in encode.parts(graph, len(history.commits)).items():
                path = f"data/{folder}/{graph.id}.js"
                site.put(path, encode.graph_key(part), partial(_graph, folder, part))
        for place, commit in enumerate(content.history.commits):
            site.put(commit_page(commit.id), commits.key(place), partial(commits.make, place))
        for case in cases.cases:
            site.put(case_page(case), cases.key(case), partial(cases.make, case))
        return site.write(summary, inputs)


def _graph(folder: str, graph: Graph) -> bytes:
    return encode.script(f"flashbench.{folder}", encode.graph_data(graph))
