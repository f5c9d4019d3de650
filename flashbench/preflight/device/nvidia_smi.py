"""Parse `nvidia-smi -q -x` of drivers since 2019 (430): the same facts under changing names."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree
from xml.sax.saxutils import escape

# The newest CUDA a driver runs, if it does not say: the first driver of each version, from the CUDA
# Toolkit Release Notes 13.0, table "CUDA Toolkit and Corresponding Driver Versions".
_FIRST_DRIVERS = ((580, "13.0"), (525, "12.0"), (450, "11.0"), (410, "10.0"), (384, "9.0"))
_NAME = re.compile(r"(<process_name>)(.*?)(</process_name>)", re.DOTALL)
_INVALID = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Process:
    """Another program on a GPU. graphics: it draws, and computes nothing."""

    pid: int
    name: str
    graphics: bool = False


@dataclass(frozen=True)
class GpuState:
    """One device. What the driver omits is None or ""; units: watts, MHz, bytes, degrees, percent.

    name: with its index if there are several. instances: of a GPU that MIG divides; None without
    MIG. ecc_errors: 0 also for a GPU without ECC. fixed_clock: the application clock, unless it is
    the default. throttled: the reasons active now, except idleness.
    """

    name: str
    uuid: str = ""
    capability: str = ""  # "9.0"; from drivers that report it
    instances: int | None = None
    persistence: bool | None = None
    compute_mode: str = ""
    ecc_errors: int = 0
    retired_pending: bool = False
    unrepaired: bool = False
    throttled: tuple[str, ...] | None = None
    fixed_clock: float | None = None
    power_limit: float | None = None
    default_power_limit: float | None = None
    temperature: float | None = None
    utilization: float | None = None
    memory_total: int | None = None
    memory_used: int | None = None
    processes: tuple[Process, ...] = ()


@dataclass(frozen=True)
class Driver:
    """version: the driver's; cuda: the newest CUDA it runs, "" for very old drivers."""

    version: str
    cuda: str
    gpus: tuple[GpuState, ...]


def read_driver(text: str, capabilities: Sequence[str] = ()) -> Driver:
    """Parse the document. capabilities: of the devices, in order. Raises ParseError for anything
    else."""
    root = _parse(text)
    version, nodes = _text(root, "driver_version"), list(root.iter("gpu"))
    known = [one if re.fullmatch(r"\d+\.\d", one) else "" for one in capabilities]
    if len(known) != len(nodes):
        known = [""] * len(nodes)
    gpus = []
    for index, (node, capability) in enumerate(zip(nodes, known, strict=True)):
        name = _text(node, "product_name") or "a GPU without a name"
        several = f"GPU {index}: {name}" if len(nodes) > 1 else name
        gpus.append(_gpu(node, several, capability))
    return Driver(version, _text(root, "cuda_version") or _cuda_of(version), tuple(gpus))


def _parse(text: str) -> ElementTree.Element:
    """Parse XML in which a process may have any name, and some drivers do not escape it."""
    try:
        return ElementTree.fromstring(text)  # noqa: S314 - the driver's own tool on this machine
    except ElementTree.ParseError:
        escaped = _NAME.sub(lambda found: found[1] + escape(found[2]) + found[3], text)
        return ElementTree.fromstring(_INVALID.sub("?", escaped))  # noqa: S314


def _cuda_of(version: str) -> str:
    major = re.match(r"\d+", version)
    number = int(major[0]) if major else 0
    return next((cuda for first, cuda in _FIRST_DRIVERS if number >= first), "")


def _gpu(node: ElementTree.Element, name: str, capability: str) -> GpuState:
    power = _any(node, "gpu_power_readings", "power_readings")
    fixed = _number(_text(node, "applications_clocks/graphics_clock"))
    default = _number(_text(node, "default_applications_clocks/graphics_clock"))
    pending = _first(
        node,
        "remapped_rows/remapped_row_pending",
        "retired_pages/pending_retirement",
        "retired_pages/pending_blacklist",
    )
    divided = _text(node, "mig_mode/current_mig") == "Enabled"
    return GpuState(
        name=name,
        uuid=_text(node, "uuid"),
        capability=capability,
        instances=len(node.findall("mig_devices/mig_device")) if divided else None,
        persistence={"Enabled": True, "Disabled": False}.get(_text(node, "persistence_mode")),
        compute_mode=_said(_text(node, "compute_mode")),
        ecc_errors=_uncorrected(_any(node, "ecc_errors/volatile")),
        retired_pending=pending == "Yes",
        unrepaired=_text(node, "remapped_rows/remapped_row_failure") == "Yes",
        throttled=_reasons(_any(node, "clocks_event_reasons", "clocks_throttle_reasons")),
        fixed_clock=fixed if default is not None and fixed != default else None,
        power_limit=_number(_first(power, "current_power_limit", "power_limit")),
        default_power_limit=_number(_first(power, "default_power_limit")),
        temperature=_number(_text(node, "temperature/gpu_temp")),
        utilization=_number(_text(node, "utilization/gpu_util")),
        memory_total=_bytes(_text(node, "fb_memory_usage/total")),
        memory_used=_bytes(_text(node, "fb_memory_usage/used")),
        processes=tuple(_processes(node)),
    )


def _processes(node: ElementTree.Element) -> Iterator[Process]:
    for entry in node.iter("process_info"):
        pid = _text(entry, "pid")
        if pid.isdecimal():
            name = _said(_text(entry, "process_name")) or "a process without a name"
            yield Process(int(pid), name, _text(entry, "type") == "G")


def _uncorrected(volatile: ElementTree.Element | None) -> int:
    """Count errors since the driver was loaded, under any driver's names."""
    if volatile is None:
        return 0
    wrong = [
        _number(entry.text) or 0
        for entry in volatile.iter()
        if re.search("uncorrect|double_bit", entry.tag)
    ]
    # Some drivers list the units of each kind: add them up.
    return int(sum(wrong) + (_number(_text(volatile, "double_bit/total")) or 0))


def _reasons(node: ElementTree.Element | None) -> tuple[str, ...] | None:
    """Read `hw_thermal_slowdown` from an active `clocks_event_reason_hw_thermal_slowdown`."""
    found, known = [], False
    for entry in node if node is not None else ():
        name = re.sub(r"^clocks_(event|throttle)_reasons?_", "", entry.tag)
        said = (entry.text or "").strip()
        known = known or said in ("Active", "Not Active")
        if said == "Active" and name != "gpu_idle":
            found.append(name)
    return tuple(found) if known else None


def _any(node: ElementTree.Element, *paths: str) -> ElementTree.Element | None:
    return next((found for path in paths if (found := node.find(path)) is not None), None)


def _first(node: ElementTree.Element | None, *names: str) -> str:
    texts = (_text(node, name) for name in names) if node is not None else ()
    return next(filter(None, texts), "")


def _text(node: ElementTree.Element, path: str) -> str:
    return (node.findtext(path) or "").strip()


def _said(text: str) -> str:
    """The text; "" for words that stand for nothing."""
    return (
        "" if text.strip("[]") in ("N/A", "Not Supported", "Unknown Error", "Not Found") else text
    )


def _number(text: str | None) -> float | None:
    found = re.match(r"\s*(\d+(\.\d+)?)", text or "")
    return float(found[1]) if found else None


def _bytes(text: str) -> int | None:
    number = _number(text)
    return None if number is None else int(number * (1 << 20))  # the tool prints MiB
