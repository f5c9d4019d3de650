"""The names of flashbench's own benchmarks in asv's results.

A device's default metric has the names of the suites in benchmarks/, so that `asv run` and
`flashbench record` add to one series. Other metrics have their own names.
"""

import re
from typing import TYPE_CHECKING, NamedTuple

from flashbench.baseline_names import baseline_beside
from flashbench.candidates import OUR_CALLABLE, name_of
from flashbench.candidates import OURS as OUR_CANDIDATE
from flashbench.metric import DEFAULT_METRIC, METRICS
from flashbench.runfile import Candidate

if TYPE_CHECKING:
    from flashbench.revisions import Built

# The version of benchmarks with one sample per launch. asv treats results of another version as
# those of another benchmark.
VERSION = "one sample a launch, 1"
SECONDS, RATIO = "Seconds.track_seconds", "Ratio.track_ratio"
RUN_PREFIX = "run-"  # environment of files made from run files
ASV_PREFIX = "flashbench-"  # environment of `asv run`
PARAMETERS = ("case", "candidate")


class Name(NamedTuple):
    """A benchmark of ours. quantity: SECONDS or RATIO."""

    device: str
    metric: str
    quantity: str

    def __str__(self) -> str:
        default = self.metric == DEFAULT_METRIC.get(self.device)
        module = self.device if default else f"{self.device}_{self.metric}"
        return f"{module}.{self.quantity}"

    @property
    def unit(self) -> str:
        return METRICS[self.metric].unit if self.quantity == SECONDS else "times the baseline"


OURS = {
    str(name): name
    for device in DEFAULT_METRIC
    for metric in METRICS
    for name in (Name(device, metric, SECONDS), Name(device, metric, RATIO))
}


# The ratios whose mean over cases is shown (site/standings.py).
SHOWN_RATIOS = frozenset(str(Name(*one, RATIO)) for one in DEFAULT_METRIC.items())


def environment(name: str, benchmark: str) -> str:
    """The environment of a result; for our benchmarks, `asv run` and run files share one."""
    ours = benchmark in OURS
    return name.removeprefix(ASV_PREFIX).removeprefix(RUN_PREFIX) if ours else name


def run_environment(python: str) -> str:
    """The environment in the file names of run files' results, for a Python version such as 3.12.3.
    They lie beside the files of `asv run`, which rewrites its own."""
    return f"{RUN_PREFIX}{_python(python)}"


def asv_environment(python: str) -> str:
    """The environment stated inside such a file: that of `asv run`, so `asv compare` joins both."""
    return f"{ASV_PREFIX}{_python(python)}"


def _python(python: str) -> str:
    known = re.match(r"\d{1,3}\.\d{1,3}(?=\.|$)", python)
    return f"py{known[0] if known else ''}"


def candidate_of(built: "Built") -> str:
    """The candidate for a build among those of other commits: the callable at its commit."""
    spec = built.project.callable
    called = OUR_CANDIDATE if spec == OUR_CALLABLE else name_of(spec)
    return f"{called}@{built.revision.commit[:8]}"


def series_of(candidate: Candidate) -> str:
    """The candidate's name in the history, without the commit."""
    if candidate.beside:
        return candidate.name.removesuffix(baseline_beside("", candidate.beside))
    name, _, commit = candidate.name.rpartition("@")
    return name if name and commit and candidate.build.commit.startswith(commit) else candidate.name
