"""`nvidia-smi -q -x`, of drivers from 2019 (430) on: the same facts under names that changed."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from xml.etree import ElementTree


@dataclass(frozen=True)
class GpuState:
    """One device. Numbers that the driver does not tell are None; watts, MHz, bytes, degrees.

    throttled: the reasons that are active now, without idleness; processes: (pid, name) of others.
    """

    name: str
    capability: str = ""  # "9.0"; of drivers that say it
    mig: bool = False
    persistence: bool = True
    compute_mode: str = "Default"
    ecc_errors: int = 0
    retired_pending: bool = False
    throttled: tuple[str, ...] = ()
    clock: float | None = None
    max_clock: float | None = None
    fixed_clock: float | None = None  # application clock, where it is not the default one
    power_limit: float | None = None
    default_power_limit: float | None = None
    temperature: float | None = None
    memory_total: int | None = None
    memory_used: int | None = None
    processes: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class Driver:
    """version: of the driver; cuda: the newest CUDA that it runs, "" of very old ones."""

    version: str
    cuda: str
    gpus: tuple[GpuState, ...]


def read_driver(text: str, capabilities: Sequence[str] = ()) -> Driver:
    """capabilities: of the devices, in their order. Raises ParseError for what is no such
    document."""
    root = ElementTree.fromstring(text)  # noqa: S314 - the driver's own tool on this machine
    return Driver(
        version=_text(root, "driver_version"),
        cuda=_text(root, "cuda_version"),
        gpus=tuple(
            replace(_gpu(node), capability=capability)
            for node, capability in zip_longest(root.iter("gpu"), capabilities, fillvalue="")
            if isinstance(node, ElementTree.Element)
        ),
    )


def _gpu(node: ElementTree.Element) -> GpuState:
    power = _any(node, "gpu_power_readings", "power_readings")
    reasons = _any(node, "clocks_event_reasons", "clocks_throttle_reasons")
    volatile = _any(node, "ecc_errors/volatile")
    wrong = [
        number
        for entry in (volatile.iter() if volatile is not None else ())
        if "uncorrect" in entry.tag
        or "dram_uncorrectable" in entry.tag
        or "double_bit" in entry.tag
        for number in [_number(entry.text)]
        if number
    ]
    # Of drivers that list the units of each kind: their sum.
    if volatile is not None and (double := _number(_text(volatile, "double_bit/total"))):
        wrong.append(double)
    fixed = _number(_text(node, "applications_clocks/graphics_clock"))
    default = _number(_text(node, "default_applications_clocks/graphics_clock"))
    pending = _first(
        node,
        "remapped_rows/remapped_row_pending",
        "retired_pages/pending_retirement",
        "retired_pages/pending_blacklist",
    )
    return GpuState(
        name=_text(node, "product_name"),
        mig=_text(node, "mig_mode/current_mig") == "Enabled",
        persistence=_text(node, "persistence_mode") != "Disabled",
        compute_mode=_text(node, "compute_mode") or "Default",
        ecc_errors=int(sum(wrong)),
        retired_pending=pending == "Yes",
        throttled=tuple(_reasons(reasons)),
        clock=_number(_text(node, "clocks/sm_clock")),
        max_clock=_number(_text(node, "max_clocks/sm_clock")),
        fixed_clock=fixed if fixed is not None and fixed != default else None,
        power_limit=_number(_first(power, "current_power_limit", "power_limit")),
        default_power_limit=_number(_first(power, "default_power_limit")),
        temperature=_number(_text(node, "temperature/gpu_temp")),
        memory_total=_bytes(_text(node, "fb_memory_usage/total")),
        memory_used=_bytes(_text(node, "fb_memory_usage/used")),
        processes=tuple(
            (int(pid), _text(entry, "process_name"))
            for entry in node.iter("process_info")
            if (pid := _text(entry, "pid")).isdigit()
        ),
    )


def _reasons(node: ElementTree.Element | None) -> list[str]:
    """`hw_thermal_slowdown` of `clocks_event_reason_hw_thermal_slowdown`: Active."""
    found = []
    for entry in node if node is not None else ():
        name = re.sub(r"^clocks_(event|throttle)_reasons?_", "", entry.tag)
        if entry.text and entry.text.strip() == "Active" and name != "gpu_idle":
            found.append(name)
    return found


def _any(node: ElementTree.Element, *paths: str) -> ElementTree.Element | None:
    return next((found for path in paths if (found := node.find(path)) is not None), None)


def _first(node: ElementTree.Element | None, *names: str) -> str:
    texts = (_text(node, name) for name in names) if node is not None else ()
    return next(filter(None, texts), "")


def _text(node: ElementTree.Element, path: str) -> str:
    return (node.findtext(path) or "").strip()


def _number(text: str | None) -> float | None:
    found = re.match(r"\s*(\d+(\.\d+)?)", text or "")
    return float(found[1]) if found else None


def _bytes(text: str) -> int | None:
    number = _number(text)
    return None if number is None else int(number * (1 << 20))  # the tool prints MiB
