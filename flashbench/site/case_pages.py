"""One page per case: all machines and metrics, the changes, percentiles and profiles."""

import hashlib
from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np

from flashbench.metric import label_of
from flashbench.site import profiles
from flashbench.site.case_names import in_words
from flashbench.site.content import CONFIDENCE, Content, Graph, case_page, commit_link, speedup
from flashbench.site.number_text import speedup_text, value_text
from flashbench.site.profiles import Profiled
from flashbench.site.templating import maker_key, page
from flashbench.table import Document, percentage, ratio_text

_COLUMNS = ("speedup", "quartiles", "time", "sdpa", "p90", "p99", "launches", "commit")


class CasePages:
    """The pages of all cases; a page's key is known before the page is made."""

    def __init__(self, content: Content, rows: dict[int, list[dict[str, Any]]]) -> None:
        """rows: the changes by commit, as listed on a page."""
        self._content = content
        self._graphs: dict[str, list[Graph]] = defaultdict(list)
        for graph in content.graphs:
            if graph.series.case:
                self._graphs[graph.series.case].append(graph)
        self._changes: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for place in sorted(rows, reverse=True):
            for row in rows[place]:
                self._changes[row["graph"]].append(row)
        self._profiles: dict[str, list[tuple[dict[str, str], list[Profiled]]]] = defaultdict(list)
        profiled = profiles.by_commit(content.profiles, content.history.commits)
        for place in sorted(profiled, reverse=True):
            mine: dict[str, list[Profiled]] = defaultdict(list)
            for one in profiled[place]:
                mine[one.case].append(one)
            for case, found in mine.items():
                self._profiles[case].append((commit_link(content, place), found))
        self.cases = tuple(self._graphs)

    def key(self, case: str) -> str:
        """A key that changes whenever anything on the case's page does."""
        digest = hashlib.blake2b(maker_key().encode(), digest_size=16)
        digest.update(repr(self._values(case)).encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def make(self, case: str) -> bytes:
        """The page."""
        return page("case.html", case_page(case), self._content, self._values(case))

    def _values(self, case: str) -> dict[str, Any]:
        graphs = self._graphs[case]
        return {
            "title": case,
            "words": in_words(case),
            "confidence": percentage(CONFIDENCE),
            "rows": [self._row(graph) for graph in graphs],
            "changes": [row for graph in graphs for row in self._changes[graph.id]],
            "percentiles": self._percentiles(case),
            "profiles": self._profiles[case],
            "graphs": [graph.id for graph in graphs],
        }

    def _row(self, graph: Graph) -> dict[str, Any]:
        """The newest numbers of a series."""
        one = graph.series
        device = graph.traits[2]
        row: dict[str, Any] = dict.fromkeys(_COLUMNS, "") | {
            "machine": one.machine,
            "device": device,
            "metric": label_of(one.metric),
            "candidate": one.candidate,
        }
        points = one.judged
        if not len(points):
            return row
        at = int(points.commit[-1])
        row["commit"] = commit_link(self._content, at)
        if one.ratio is not None:
            ratio = speedup(one.ratio[-1:])
            value, low, high, q25, q75 = (
                float(column[0])
                for column in (ratio.value, ratio.low, ratio.high, ratio.q25, ratio.q75)
            )
            row["speedup"] = speedup_text(value, low, high) + ", of medians" * one.of_medians
            if np.isfinite([q25, q75]).all():
                row["quartiles"] = f"{ratio_text(q25)}, {ratio_text(q75)}"
        for name, line in (("time", one.points), ("sdpa", one.control)):
            if line is None or not len(line) or line.commit[-1] != at:
                continue
            row[name] = value_text(float(line.value[-1]), one.unit)
            for tail in ("p90", "p99"):
                number = float(getattr(line, tail)[-1])
                if name == "time" and np.isfinite(number):
                    row[tail] = value_text(number, one.unit)
            row["launches"] = row["launches"] or int(line.launches[-1]) or ""
        return row

    def _percentiles(self, case: str) -> list[tuple[str, Document]]:
        """The case's percentiles in each newest run file, with the machine."""
        found = []
        for latest in self._content.latest:
            if latest.percentiles is None:
                continue
            rows = [
                row for row in latest.percentiles.rows if "case" in row and row["case"].text == case
            ]
            if rows:
                columns = [c for c in latest.percentiles.columns if c.key != "case"]
                table = replace(latest.percentiles, rows=rows, columns=columns, footer=[])
                found.append((f"{latest.processor} ({latest.machine})", table))
        return found
