"""Metrics: how a call is timed, what tables call it, and which one decides on each device."""

from typing import NamedTuple

UNIT = "seconds"  # per call, for every metric


class Metric(NamedTuple):
    """name: in files and flags; label: in tables; devices: where it can be measured."""

    name: str
    label: str
    devices: tuple[str, ...]


METRICS = {
    metric.name: metric
    for metric in (
        Metric("wall", "eager wall time", ("cpu", "cuda")),
        Metric("gpu_warm", "GPU time, warm L2", ("cuda",)),
        Metric("gpu_cold", "GPU time, cold L2", ("cuda",)),
        Metric("graph", "CUDA graph replay", ("cuda",)),
    )
}
DEFAULT_METRIC = {"cpu": "wall", "cuda": "gpu_warm"}


def metric_of(device: str, metric: str | None = None) -> str:
    """The metric that decides on `device`: the requested one, or the device's default."""
    return metric or DEFAULT_METRIC.get(device, "wall")


def metrics_of(device: str) -> tuple[str, ...]:
    """Names of the metrics on `device`, in the order of measurement."""
    return tuple(metric.name for metric in METRICS.values() if device in metric.devices)


def label_of(metric: str) -> str:
    """A metric's label in tables; its own name if the metric is unknown here."""
    return METRICS[metric].label if metric in METRICS else metric
