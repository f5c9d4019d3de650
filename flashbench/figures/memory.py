"""The figure of the memory."""

from flashbench.figures.figure import Axis, Data, Dots, Figure, Mark, Panel, log_ends
from flashbench.figures.times import candidates
from flashbench.launches import LaunchData
from flashbench.table import digits


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
