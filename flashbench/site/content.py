"""The content of the site: a history, its change points, and the latest tables.

Text is untrusted; `shown` escapes it before it goes onto a page.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property

import numpy as np

from flashbench.baseline_names import is_default
from flashbench.figures.figure import Figure
from flashbench.history.model import Change, History, Points, Series
from flashbench.history.profiles import Kept
from flashbench.metric import label_of
from flashbench.render.escape import printable
from flashbench.site.case_names import baseline_of, known_case
from flashbench.site.jumps import Jump
from flashbench.table import Document

CONFIDENCE = 0.99  # of the intervals of `Points`
HASH = 10  # digits of a commit's hash on pages


@dataclass(frozen=True, slots=True)
class Graph:
    """A drawn series, with its control, its changes and its jumps, oldest first. continues: a graph
    of earlier commits, which has a file of its own."""

    series: Series
    changes: tuple[Change, ...] = ()
    jumps: tuple[Jump, ...] = ()
    continues: bool = False

    @property
    def id(self) -> str:
        """A name of letters and digits for files and URLs."""
        one = self.series
        return _identifier(
            "g", one.machine, one.environment, one.benchmark, *map(str, one.parameters)
        )

    @property
    def title(self) -> str:
        """For readers: the series and where it was measured."""
        one = self.series
        if not one.case:
            return f"{one.name} on {one.machine}"
        metric = f", {label_of(one.metric)}," if one.metric else ""
        return f"{one.case} {one.candidate}{metric} on {one.machine}"

    @property
    def judged(self) -> Points:
        """Speed-ups over the control, or the values of a series without one."""
        ratio = self.series.ratio
        return self.series.points if ratio is None else speedup(ratio)

    @property
    def traits(self) -> tuple[str, str, str]:
        """dtype, options such as the mask, and device; empty strings if unknown."""
        case = known_case(self.series.case)
        return (case.dtype, "-".join(case.options.values()), case.device) if case else ("", "", "")


@dataclass(frozen=True, slots=True)
class Latest:
    """The newest commit with a run file on a machine's device. commit: its index; processor: the
    device's own name; figures: of its speed-ups, and a roofline where roofs are known; percentiles:
    of every candidate, if there is a run file."""

    machine: str
    device: str
    processor: str
    commit: int
    table: Document
    figures: tuple[Figure, ...] = ()
    percentiles: Document | None = None


@dataclass(frozen=True)
class Content:
    """The whole content. graphs: in the order to show; factors: by machine, on the penalty of a
    change, from its noise."""

    project: str
    history: History
    graphs: tuple[Graph, ...]
    latest: tuple[Latest, ...] = ()
    notes: tuple[str, ...] = ()  # what was skipped, one line each
    profiles: tuple[Kept, ...] = ()
    factors: Mapping[str, float] = field(default_factory=dict)

    @cached_property  # every page has it
    def baseline(self) -> str:
        """What the speed-ups of all series are over, as a sentence calls it."""
        names = {baseline_of(one.case) for one in self.history.series if one.ratio is not None}
        return min(names) if len(names) == 1 and names != {""} else "its baseline"


def drawn(history: History) -> tuple[Series, ...]:
    """The series with a graph of their own: all except controls drawn beside another series. SDPA's
    other backends come last, and GPUs, whose times are quieter, before CPUs."""

    def place(one: Series) -> tuple[str, ...]:
        return one.machine, one.environment, one.benchmark, one.case

    controlled = {place(one) for one in history.series if one.control is not None}
    shown = (s for s in history.series if not is_default(s.candidate) or place(s) not in controlled)

    def rank(one: Series) -> tuple[bool, bool]:
        case = known_case(one.case)
        return one.baseline, case is None or case.device == "cpu"

    return tuple(sorted(shown, key=rank))


def speedup(ratio: Points) -> Points:
    """The inverse of a ratio of times: above 1 is faster, as in all tables. It has no percentiles
    of single samples."""
    unknown = np.full(len(ratio), np.nan)
    return replace(
        ratio,
        value=1 / ratio.value,
        low=1 / ratio.high,
        high=1 / ratio.low,
        q25=1 / ratio.q75,
        q75=1 / ratio.q25,
        p90=unknown,
        p99=unknown,
        samples=1 / ratio.samples,
    )


def date(seconds: int) -> str:
    """The day in UTC; "" for an impossible time."""
    return moment(seconds).partition(" ")[0]


def moment(seconds: int) -> str:
    """Day and time in UTC, to the minute; "" for an impossible time."""
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(" ", "minutes")[:16]
    except (ValueError, OverflowError, OSError):
        return ""


def shown(text: str) -> str:
    r"""One line of untrusted text with invisible characters escaped, as \x1b."""
    if text.isprintable():
        return text
    return printable(text.encode("utf-8", "replace").decode())


def case_page(case: str) -> str:
    """The file of a case's page."""
    readable = re.sub(r"[^A-Za-z0-9]+", "-", case)[:60].strip("-")
    return _identifier(f"cases/{readable}-", case) + ".html"


def machine_page(name: str) -> str:
    """The file of a machine's page, unique to its name."""
    readable = re.sub(r"[^A-Za-z0-9]+", "-", name)[:30].strip("-")
    return _identifier(f"machine-{readable}-", name) + ".html"


def commit_page(commit: str) -> str:
    """The file of a commit's page."""
    return (
        f"commits/{commit}.html" if commit.isalnum() else _identifier("commits/", commit) + ".html"
    )


def commit_link(content: Content, place: int) -> dict[str, str]:
    """The values that name a commit on a page."""
    one = content.history.commits[place]
    return {
        "page": commit_page(one.id),
        "hash": one.id[:HASH],
        "day": date(one.time),
        "date": moment(one.time),
        "subject": one.subject,
    }


def _identifier(prefix: str, *parts: str) -> str:
    text = "\0".join(parts).encode("utf-8", "surrogatepass")
    return prefix + hashlib.sha256(text).hexdigest()[:12]
