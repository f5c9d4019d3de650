"""Figures of the machine's limits: the roofline, and the memory."""

from collections.abc import Sequence

from flashbench.launches import LaunchData
from flashbench.machine import identify
from flashbench.reports.figure import Axis, Data, Dots, Figure, Line, Mark, Panel, log_ends
from flashbench.reports.times import candidates
from flashbench.runfile import Ceilings
from flashbench.table import digits


def roofline(data: LaunchData, ceilings: Sequence[Ceilings]) -> Figure:
    """One panel per device and dtype: throughput by arithmetic intensity, below measured roofs."""
    names = candidates(data)
    panels: list[Panel] = []
    rows: list[list[str | float | int | None]] = []
    notes: list[str] = []
    cases = data.run.cases
    for device, dtype in sorted({(case.device, case.dtype) for case in cases}):
        marks: list[Mark] = []
        places: list[tuple[float, float]] = []
        for series, name in enumerate(names):
            index = data.candidate_index[name]
            x, y, titles = [], [], []
            for place, case in enumerate(cases):
                micros = data.median_us(index, place)
                if (case.device, case.dtype) != (device, dtype) or micros is None:
                    continue
                if not (case.flops and case.bytes):
                    continue  # nothing computed, or unknown
                x.append(case.flops / case.bytes)
                y.append(case.flops / micros / 1e6)
                titles.append(f"{case.id}, {name}: {digits(y[-1])} TFLOP/s")
                rows.append([case.id, name, device, dtype, x[-1], y[-1]])
            if x:
                marks.append(Dots(series, x, y, titles, filled=series == 0))
                places += zip(x, y, strict=True)
        if not places:
            continue
        key = (device, *identify(data.run.environment, device))
        known = next((one for one in ceilings if one.key == key), None)
        x_ends, y_ends = (
            log_ends([p[0] for p in places], 1.5),
            log_ends([p[1] for p in places], 1.3),
        )
        flat = known.flops.get(dtype) if known else None
        if known and flat and known.bytes_per_second:
            y_ends = y_ends[0], max(y_ends[1], flat / 1e12 * 1.6)
            marks = [*_roofs(known, flat, x_ends, y_ends), *marks]
            notes.append(
                f"Roofs of {device} {dtype}, measured on {known.name} at {known.measured[:10]}: "
                f"{digits(flat / 1e12)} TFLOP/s in a matrix product, "
                f"{digits(known.bytes_per_second / 1e9)} GB/s in a copy."
                + " Marks above the flat roof show that it was measured at lower clocks, or on "
                "another machine." * (max(rate for _, rate in places) > 1.02 * flat / 1e12)
            )
        else:
            notes.append(
                f"No roof for {device} {dtype}: the peaks of {_named(key)} are not known here. "
                "Measure them there with `flashbench info --peak --format json`, and pass the "
                "file with --roofs."
            )
        panels.append(
            Panel(
                f"{device}, {dtype}",
                Axis("FLOP a byte that has to be moved", "log", x_ends),
                Axis("TFLOP/s", "log", y_ends),
                marks,
                f"{len(places)} marks, up to {digits(max(p[1] for p in places))} TFLOP/s"
                + (f" below a roof of {digits(flat / 1e12)}" if flat else ", without a roof"),
            )
        )
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


def _named(key: tuple[str, str, int]) -> str:
    _, name, threads = key
    return (name or "this machine") + (f" with {threads} threads" if threads else "")


def _roofs(
    known: Ceilings, flat: float, x: tuple[float, float], y: tuple[float, float]
) -> list[Mark]:
    ridge = flat / known.bytes_per_second
    corner = min(max(ridge, x[0]), x[1])
    start = min(max(x[0], y[0] * 1e12 / known.bytes_per_second), corner)
    roof = [min(flat, at * known.bytes_per_second) / 1e12 for at in (start, corner, x[1])]
    marks: list[Mark] = [
        Line(None, [start, corner, x[1]], roof, label=f"{digits(flat / 1e12)} TFLOP/s")
    ]
    cached = known.cached_bytes_per_second
    if cached and cached > known.bytes_per_second:
        turn = min(max(flat / cached, x[0]), x[1])
        begin = min(max(x[0], y[0] * 1e12 / cached), turn)
        ends = [min(flat, at * cached) / 1e12 for at in (begin, turn)]
        marks.append(Line(None, [begin, turn], ends, dashed=True))
    return marks


def memory(data: LaunchData) -> Figure:
    """Peak memory beyond the inputs, by the size of inputs and output; one panel per device."""
    names = candidates(data)
    panels: list[Panel] = []
    rows: list[list[str | float | int | None]] = []
    for device in sorted({case.device for case in data.run.cases}):
        marks: list[Mark] = []
        sizes: list[float] = []
        peaks: list[float] = []
        for series, name in enumerate(names):
            x, y, titles = [], [], []
            for place, case in enumerate(data.run.cases):
                peak = data.peak_memory(data.candidate_index[name], place)
                if case.device != device or not peak or not case.bytes:
                    continue
                x.append(case.bytes / 1e6)
                y.append(peak / 1e6)
                titles.append(f"{case.id}, {name}: {digits(y[-1])} MB")
                rows.append([case.id, name, device, case.bytes, peak])
            if x:
                marks.append(Dots(series, x, y, titles, filled=series == 0))
                sizes, peaks = [*sizes, *x], [*peaks, *y]
        if marks:
            panels.append(
                Panel(
                    device,
                    Axis("inputs and output, MB", "log", log_ends(sizes, 1.3)),
                    Axis("peak, MB", "log", log_ends(peaks, 1.3)),
                    marks,
                    f"{len(sizes)} marks, {digits(min(peaks))} to {digits(max(peaks))} MB",
                )
            )
    return Figure(
        "memory",
        "Memory",
        "Peak memory of one call beyond its inputs, the output included, by the size of the case; "
        "the largest of any launch.",
        panels,
        names,
        Data(["case", "candidate", "device", "case_bytes", "peak_bytes"], rows),
    )
