"""Metrics: how a call is timed, what tables call it, and which one decides on each device."""

from typing import NamedTuple

UNIT = "seconds"  # per call


class Metric(NamedTuple):
    """name: in files and flags; label: in tables; devices: where it can be measured; default_on:
    where it decides unless another is named; unit: of a call's number."""

    name: str
    label: str
    devices: tuple[str, ...]
    default_on: tuple[str, ...] = ()
    unit: str = UNIT


METRICS = {
    metric.name: metric
    for metric in (
        Metric("wall", "eager wall time", ("cpu", "cuda"), default_on=("cpu",)),
        Metric("gpu_warm", "GPU time, warm L2", ("cuda",), default_on=("cuda",)),
        Metric("gpu_cold", "GPU time, cold L2", ("cuda",)),
        Metric("graph", "CUDA graph replay", ("cuda",)),
    )
}
DEFAULT_METRIC = {device: one.name for one in METRICS.values() for device in one.default_on}
_PLACES = {"cpu": "on the CPU", "cuda": "on a GPU"}
DEFAULTS_IN_HELP = ", ".join(f"{name} {_PLACES[device]}" for device, name in DEFAULT_METRIC.items())


def metric_of(device: str, metric: str | None = None) -> str:
    """The metric that decides on `device`: the requested one, or the device's default."""
    return metric or DEFAULT_METRIC.get(device, "wall")


def metrics_of(device: str) -> tuple[str, ...]:
    """Names of the metrics on `device`, in the order of measurement."""
    return tuple(metric.name for metric in METRICS.values() if device in metric.devices)


def label_of(metric: str) -> str:
    """A metric's label in tables; its own name if the metric is unknown here."""
    return METRICS[metric].label if metric in METRICS else metric
