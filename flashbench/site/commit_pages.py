"""One page per commit: its build, its measurements, and the changes attributed to it."""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flashbench.arrays import FloatArray
from flashbench.history.model import Gap, Points, together
from flashbench.site.commit_rows import CommitRows
from flashbench.site.content import (
    CONFIDENCE,
    HASH,
    Content,
    commit_link,
    commit_page,
    moment,
)
from flashbench.site.profiles import by_commit
from flashbench.site.templating import maker_key, page
from flashbench.table import percentage

_BODY_LINES, _BODY_CHARACTERS = 500, 20_000  # of a commit message on a page
_COLUMNS = 6  # value, low and high of the judged points; ours, the control; the previous value


class CommitPages:
    """The pages of all commits; a page's key is known before the page is made."""

    def __init__(self, content: Content, changes: dict[int, list[dict[str, Any]]]) -> None:
        """changes: by commit, as listed on a page."""
        self._content = content
        self._changes = changes
        self._cells = _Cells(content)
        self._rows = CommitRows(content.graphs)
        self._gaps: dict[int, list[Gap]] = {}
        for gap in content.history.gaps:
            self._gaps.setdefault(gap.commit, []).append(gap)
        self._profiles = by_commit(content.profiles, content.history.commits)
        self._spent: dict[int, list[tuple[str, str]]] = {}
        for (machine, place), spent in sorted(content.history.spent.items()):
            self._spent.setdefault(place, []).append((machine, spent.line))
        self._about = content.project, content.baseline
        names = [(graph.title, graph.id, graph.series.unit) for graph in content.graphs]
        keys = [hashlib.blake2b(repr(name).encode(), digest_size=16) for name in names]
        self._names_keys = np.array([key.digest() for key in keys], dtype="V16")

    def series(self, commit: int) -> int:
        """The number of series with a value at a commit."""
        return len(self._cells.of(commit)[0])

    def key(self, commit: int) -> str:
        """A key that changes whenever anything on the commit's page does."""
        digest = hashlib.blake2b(maker_key().encode(), digest_size=16)
        graphs, numbers = self._cells.of(commit)
        digest.update(self._names_keys[graphs].tobytes())
        digest.update(numbers.tobytes())
        commits = self._content.history.commits
        beside = [commits[i].id for i in (commit - 1, commit + 1) if 0 <= i < len(commits)]
        known = (
            commits[commit],
            beside,
            self._gaps.get(commit),
            self._changes.get(commit),
            self._profiles.get(commit),
            self._spent.get(commit),
        )
        digest.update(repr((self._about, known)).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def make(self, commit: int) -> bytes:
        """The page."""
        commits = self._content.history.commits
        one = commits[commit]
        values = {
            "title": f"Commit {one.id[:HASH]}",
            "subject": one.subject,
            "body": _message(one.body),
            "hash": one.id,
            "date": moment(one.time),
            "author": one.author,
            "merged": len(one.merged),
            "before": self._link(commit - 1),
            "after": self._link(commit + 1),
            "gaps": [
                {"status": gap.status, "machine": gap.machine, "lines": gap.reason.splitlines()}
                for gap in self._gaps.get(commit, ())
            ],
            "changes": self._changes.get(commit, []),
            "profiles": self._profiles.get(commit, []),
            "spent": self._spent.get(commit, []),
            "confidence": percentage(CONFIDENCE),
            "series": self.series(commit),
            "rows": self._rows.html(*self._cells.of(commit)),
        }
        return page("commit.html", commit_page(one.id), self._content, values)

    def _link(self, commit: int) -> dict[str, str] | None:
        there = 0 <= commit < len(self._content.history.commits)
        return commit_link(self._content, commit) if there else None


def _message(body: str) -> list[str]:
    """The lines of a commit's message below its subject, cut to fit a page."""
    lines = body[:_BODY_CHARACTERS].splitlines()[:_BODY_LINES]
    left = len(body.splitlines()) - len(lines)
    if left or len(body) > _BODY_CHARACTERS:
        lines.append(f"[cut here: {len(body)} characters in all]")
    return lines


class _Cells:
    """The numbers of each commit in each graph, stored sparsely: in a long history most commits
    have none."""

    def __init__(self, content: Content) -> None:
        judged = [graph.series.judged for graph in content.graphs]
        sizes = [len(points) for points in judged]
        commit = np.concatenate([points.commit for points in judged] or [np.empty(0, np.int64)])
        if len(content.history.commits) < 2**16:
            commit = commit.astype(np.uint16)  # which are sorted in linear time
        order = np.argsort(commit, kind="stable")
        counts = np.bincount(commit, minlength=len(content.history.commits))
        self._starts = np.cumsum([0, *counts])
        self._graphs = np.repeat(np.arange(len(judged), dtype=np.int32), sizes)[order]
        self._numbers = np.full((_COLUMNS, len(commit)), np.nan)
        ends = np.cumsum([0, *sizes]).tolist()
        for graph, points, start, end in zip(content.graphs, judged, ends, ends[1:], strict=False):
            one = graph.series
            mine = self._numbers[:, start:end]
            if one.ratio is None:
                mine[:3] = points.value, points.low, points.high
            else:  # as `speedup`
                mine[:3] = points.value, points.high, points.low
                np.divide(1, mine[:3], out=mine[:3])
                mine[3] = _at(one.points, points)
            if one.control is not None:
                mine[4] = _at(one.control, points)
            mine[5, 1:] = mine[0, :-1]
        for column in self._numbers:  # one at a time: there may be hundreds of megabytes
            column[:] = column[order]

    def of(self, commit: int) -> tuple[NDArray[np.int32], FloatArray]:
        """The indices of graphs (graphs,) and their numbers (6, graphs), NaN if missing."""
        mine = slice(self._starts[commit], self._starts[commit + 1])
        return self._graphs[mine], self._numbers[:, mine]


def _at(points: Points, others: Points) -> FloatArray:
    """(others,): the values of `points` at the commits of others, NaN if missing."""
    if not len(points):
        return np.full(len(others), np.nan)
    place = np.searchsorted(points.commit, others.commit).clip(max=len(points) - 1)
    return np.where(points.commit[place] == others.commit, points.value[place], np.nan)


def measured_on(content: Content, machine: str) -> list[int]:
    """The commits with a number on a machine, ascending."""
    mine = [one.series.points.commit for one in content.graphs if one.series.machine == machine]
    found: list[int] = together(mine).tolist()
    return found
