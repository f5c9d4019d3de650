"""Figures of the machine during the run: clocks, temperature, power, load."""

from flashbench.figures.figure import Axis, Data, Dots, Figure, Line, Mark, Panel, linear_ends
from flashbench.runfile import RunFile

# Fields of flashbench.runfile.DeviceState.
_KINDS = {
    "sm_clock_mhz": "GPU clock, MHz",
    "temperature_celsius": "GPU temperature, °C",
    "power_watts": "GPU power, W",
    "cpu_mhz": "CPU clock, MHz",
    "load_average": "load average",
}


def machine_state(run: RunFile) -> Figure:
    """A panel for each value read before and after the launches."""
    panels = []
    rows: list[list[str | float | int | None]] = []
    for key, label in _KINDS.items():
        marks: list[Mark] = []
        values: list[float] = []
        for series, moment in enumerate(("before", "after")):
            found = [
                (number, float(value))
                for number, launch in enumerate(run.launches)
                if (state := getattr(launch, moment)) is not None
                and (value := getattr(state, key)) is not None
            ]
            if found:
                x, y = [float(n) for n, _ in found], [value for _, value in found]
                titles = [f"{moment} launch {n}: {value:g}" for n, value in found]
                marks += [Line(series, x, y, dashed=series == 1), Dots(series, x, y, titles)]
                values += y
                rows += [[key, moment, n, value] for n, value in found]
        if marks:
            panels.append(
                Panel(
                    label,
                    Axis("launch", "linear", (-0.5, len(run.launches) - 0.5)),
                    Axis("", "linear", linear_ends(values)),
                    marks,
                    f"from {min(values):g} to {max(values):g}",
                )
            )
    return Figure(
        "conditions",
        "The machine during the run",
        "Read before and after each launch.",
        panels,
        ("before", "after"),
        Data(["what", "moment", "launch", "value"], rows),
    )
