"""Rooflines: throughput against arithmetic intensity, below the roofs of a device."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from flashbench.case import Case
from flashbench.figures.figure import Axis, Data, Dots, Ends, Figure, Line, Mark, Panel, log_ends
from flashbench.figures.times import candidates
from flashbench.launches import LaunchData
from flashbench.machine import identify
from flashbench.profile.roofline import Roofline
from flashbench.runfile import Ceilings
from flashbench.table import digits

_HOPPER = {"fp16": 989.4e12, "bf16": 989.4e12}
# Bytes a second, and FLOP/s of dense tensor operations, from NVIDIA's data sheets, for SXM if there
# are several versions; halved if they count sparsity.
DATA_SHEETS = {
    "H200": (4.8e12, _HOPPER),
    "H100": (3.35e12, _HOPPER),
    "A100": (2.039e12, {"fp16": 312e12, "bf16": 312e12}),
    "L4": (0.3e12, {"fp16": 121e12, "bf16": 121e12}),
}
_NOISE = 1.05  # a rate beyond so much of a measured peak shows that the peak is none


class RooflinePoint(NamedTuple):
    """A case, and the seconds that a candidate takes for it."""

    case: Case
    candidate: str
    seconds: float


def data_sheet(device: str, name: str) -> list[Ceilings]:
    """The peaks of this processor by its data sheet (measured: ""); none of an unknown one, as any
    CPU."""
    words = name.upper().replace("-", " ").split() if device == "cuda" else []
    sheets = [DATA_SHEETS[chip] for chip in DATA_SHEETS if chip in words]
    return [
        Ceilings(
            device=device, name=name, threads=0, measured="", flops=flops, bytes_per_second=memory
        )
        for memory, flops in sheets
    ]


def of_run(data: LaunchData, ceilings: Sequence[Ceilings]) -> Figure:
    """The roofline of a run file. ceilings: those of other processors are not drawn."""
    names, run = candidates(data), data.run
    timed = [
        RooflinePoint(case, name, micros / 1e6)
        for name in names
        for place, case in enumerate(run.cases)
        if (micros := data.median_us(data.candidate_index[name], place))
    ]
    keys = {device: identify(run.environment, device) for device in {c.device for c in run.cases}}
    known = {one.key: one for one in reversed(ceilings)}
    roofs = {device: known.get((device, *key)) for device, key in keys.items()}
    processors = {device: _named(*key) for device, key in keys.items()}
    elsewhere = [device for device, roof in roofs.items() if roof and roof not in run.ceilings]
    return roofline(timed, names, roofs, processors, elsewhere)


def roofline(
    timed: Sequence[RooflinePoint],
    names: tuple[str, ...],
    roofs: Mapping[str, Ceilings | None],
    processors: Mapping[str, str],
    elsewhere: Sequence[str] = (),
) -> Figure:
    """One panel per device and dtype. names: of the candidates; processors: by their device;
    elsewhere: the devices whose roofs are not the run file's."""
    panels: list[Panel] = []
    notes: list[str] = []
    timed = [one for one in timed if one.case.flops and one.case.bytes]
    for device in sorted({one.case.device for one in timed}):
        known = roofs[device]
        drawn, refuted, unknown = [], [], []
        for dtype in sorted({one.case.dtype for one in timed if one.case.device == device}):
            here = [t for t in timed if (t.case.device, t.case.dtype) == (device, dtype)]
            flat = known.flops.get(dtype) if known and known.bytes_per_second else None
            highest = max(map(_rate, here))
            if not (known and flat):
                unknown.append(dtype)
            elif known.measured and highest > _NOISE * flat / 1e12:
                refuted.append(f"{dtype} ({digits(highest)} over {digits(flat / 1e12)} TFLOP/s)")
            else:
                drawn.append(dtype)
            roof = known if dtype in drawn else None
            panels.append(_panel(f"{device}, {dtype}", here, names, roof))
        if known and drawn:
            notes.append(_source(known, drawn))
            if known.measured and device in elsewhere:
                notes.append("The run file has none: these may be of another machine of that kind.")
        if refuted:
            notes.append(
                f"No roof for {device} {', '.join(refuted)}: a case ran above the measured peak, "
                "so the peak was measured on a busy machine, at lower clocks or elsewhere: "
                "`flashbench info --peak` again, when nothing else runs."
            )
        if unknown:
            notes.append(
                f"No roof for {device} {', '.join(unknown)}: the peaks of {processors[device]} are "
                "not known here. Pass a profile of such a machine with `--roofs PROFILE`, or the "
                "file that `flashbench info --peak --format json` writes there."
            )
    rows: list[list[str | float | int | None]] = [
        [t.case.id, t.candidate, t.case.device, t.case.dtype, _intensity(t), _rate(t)]
        for t in timed
    ]
    return Figure(
        "roofline",
        "Roofline",
        "Operations of exactly the unmasked pairs over the median time, by operations a byte of "
        "inputs and output. Bytes are the fewest that have to be moved.",
        panels,
        names,
        Data(["case", "candidate", "device", "dtype", "flop_per_byte", "tflops"], rows),
        notes,
    )


def profiled(line: Roofline, title: str) -> Figure:
    """The roofline of a profile: each candidate by the bytes that it moves and by those needed."""
    x = log_ends([line.ridge, *(at for p in line.points for at in (p.intensity, p.ideal) if at)], 2)
    low = min([*(point.rate for point in line.points), line.flat * x[0] / line.ridge])
    y = log_ends([low / 1e12, line.flat / 1e12], 1.6)
    marks = _roofs(line.flat, line.slope, line.cached_slope, x, y)
    for number, point in enumerate(line.points):
        said = [f"{point.name}: {digits(point.rate / 1e12)} TFLOP/s"]
        marks.append(Dots(number, [point.ideal], [point.rate / 1e12], said, filled=False))
        if point.intensity:
            marks.append(Dots(number, [point.intensity], [point.rate / 1e12], said))
    axis = Axis("FLOP a byte (filled: moved, open: needed)", "log", x)
    copy = f"{line.dtype}; copy: {digits(line.slope / 1e12)} TB/s"
    panel = Panel(copy, axis, Axis("TFLOP/s", "log", y), marks, title)
    names = tuple(point.name for point in line.points)
    return Figure("roofline", title, title, [panel], names, Data([], []))


def _panel(
    title: str, timed: Sequence[RooflinePoint], names: tuple[str, ...], known: Ceilings | None
) -> Panel:
    marks: list[Mark] = []
    for series, name in enumerate(names):
        here = [one for one in timed if one.candidate == name]
        titles = [f"{one.case.id}, {name}: {digits(_rate(one))} TFLOP/s" for one in here]
        x, y = [_intensity(one) for one in here], [_rate(one) for one in here]
        marks += [Dots(series, x, y, titles, filled=series == 0)] if here else []
    highest = max(map(_rate, timed))
    said = f"{len(timed)} marks, up to {digits(highest)} TFLOP/s"
    x_ends, y_ends = log_ends([*map(_intensity, timed)], 1.5), log_ends([*map(_rate, timed)], 1.3)
    if known:
        flat = known.flops[timed[0].case.dtype]
        y_ends = y_ends[0], max(y_ends[1], flat / 1e12 * 1.6)
        roofs = _roofs(flat, known.bytes_per_second, known.cached_bytes_per_second, x_ends, y_ends)
        marks = [*roofs, *marks]
        said += f" below a roof of {digits(flat / 1e12)}"
    x_axis = Axis("FLOP a byte that has to be moved", "log", x_ends)
    return Panel(
        title,
        x_axis,
        Axis("TFLOP/s", "log", y_ends),
        marks,
        said + ", without a roof" * (not known),
    )


def _intensity(one: RooflinePoint) -> float:
    return one.case.flops / one.case.bytes


def _rate(one: RooflinePoint) -> float:
    """In TFLOP/s."""
    return one.case.flops / one.seconds / 1e12


def _source(known: Ceilings, dtypes: Sequence[str]) -> str:
    flat = ", ".join(f"{dtype} {digits(known.flops[dtype] / 1e12)}" for dtype in dtypes)
    slope = f"{digits(known.bytes_per_second / 1e9)} GB/s"
    if not known.measured:
        return (
            f"Roofs of {known.device}, from the data sheet of {known.name}: {flat} TFLOP/s "
            f"(dense), {slope}."
        )
    cached = known.cached_bytes_per_second or 0.0
    shown = cached > known.bytes_per_second
    dashed = f"; dashed: {digits(cached / 1e9)} GB/s from cache" if shown else ""
    return (
        f"Roofs of {known.device}, measured on {_named(known.name, known.threads)} at "
        f"{known.measured[:10]}: {flat} "
        f"TFLOP/s in a matrix product, {slope} in a copy{dashed}."
    )


def _named(name: str, threads: int) -> str:
    return (name or "this machine") + (f" with {threads} threads" if threads else "")


def _roofs(flat: float, slope: float, cached: float | None, x: Ends, y: Ends) -> list[Mark]:
    """The roof, inside the panel; dashed the one of the cache, where it is higher."""
    marks: list[Mark] = []
    for rate, label in ((slope, f"{digits(flat / 1e12)} TFLOP/s"), (cached or 0.0, "")):
        if label or rate > slope:
            corner = min(max(flat / rate, x[0]), x[1])
            start = min(max(x[0], y[0] * 1e12 / rate), corner)
            along = [start, corner, x[1]] if label else [start, corner]
            roof = [min(flat, at * rate) / 1e12 for at in along]
            marks.append(Line(None, along, roof, dashed=not label, label=label))
    return marks
