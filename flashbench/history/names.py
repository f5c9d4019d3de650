"""What flashbench's own benchmarks are called in asv's results, and what the names say.

The device's default metric has the names of the suites in benchmarks/, so that what `asv run` and
what `flashbench record` keep is one series; other metrics have names of their own.
"""

import re
from typing import TYPE_CHECKING, NamedTuple

from flashbench.candidates import OUR_CALLABLE
from flashbench.candidates import OURS as OUR_CANDIDATE
from flashbench.launches import DEFAULT_METRIC, METRIC_LABELS
from flashbench.runfile import Candidate

if TYPE_CHECKING:
    from flashbench.project import Built

# Of a benchmark whose samples are one number a launch. asv takes results of another version for
# those of another benchmark.
VERSION = "one sample a launch, 1"
SECONDS, RATIO = "Seconds.track_seconds", "Ratio.track_ratio"
RUN_PREFIX = "run-"  # of the environments of run files
UNITS = {SECONDS: "seconds", RATIO: "times SDPA"}
PARAMETERS = ("case", "candidate")


class Name(NamedTuple):
    """What one of our benchmarks measures; quantity: SECONDS or RATIO."""

    device: str
    metric: str
    quantity: str

    def __str__(self) -> str:
        default = self.metric == DEFAULT_METRIC.get(self.device)
        module = self.device if default else f"{self.device}_{self.metric}"
        return f"{module}.{self.quantity}"


OURS = {
    str(name): name
    for device in DEFAULT_METRIC
    for metric in METRIC_LABELS
    for name in (Name(device, metric, SECONDS), Name(device, metric, RATIO))
}


def environment(name: str, benchmark: str) -> str:
    """The environment of a result: that of `asv run` and of run files is one, for what is ours."""
    ours = benchmark in OURS
    return name.removeprefix("flashbench-").removeprefix(RUN_PREFIX) if ours else name


def run_environment(python: str) -> str:
    """The environment of run files that were measured with a version of Python, as 3.12.3."""
    version = ".".join(python.split(".")[:2])
    known = re.fullmatch(r"\d{1,3}\.\d{1,3}", version)
    return f"{RUN_PREFIX}py{version if known else ''}"


def candidate_of(built: "Built") -> str:
    """The candidate that a build is among those of other commits: the callable, at the commit."""
    spec = built.project.callable
    called = OUR_CANDIDATE if spec == OUR_CALLABLE else spec.rpartition(":")[2]
    return f"{called}@{built.revision.commit[:8]}"


def series_of(candidate: Candidate) -> str:
    """The candidate in the history, where the commit is no part of its name."""
    name, _, commit = candidate.name.rpartition("@")
    return name if name and commit and candidate.build.commit.startswith(commit) else candidate.name
