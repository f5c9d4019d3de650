"""What flashbench's own benchmarks are called in asv's results, and what the names say.

The device's default metric has the names of the suites in benchmarks/, so that what `asv run` and
what `flashbench record` keep is one series; other metrics have names of their own.
"""

from typing import NamedTuple

from flashbench.launches import DEFAULT_METRIC, METRIC_LABELS

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
