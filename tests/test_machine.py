"""The machine's profile: what `aa` keeps for planning."""

from pathlib import Path

import pytest

from flashbench import machine
from flashbench.errors import InvalidInputError
from flashbench.runfile import Environment

HERE = Environment(cpu="a CPU", threads=2, gpu="a GPU")
CURVE = [None, None, *(0.12 / n for n in range(1, 39))]


def noise(name: str = "a CPU", **changed: object) -> machine.Noise:
    fields: dict[str, object] = {
        "device": "cpu",
        "name": name,
        "threads": 2,
        "metric": "wall",
        "measured": "2026-01-01T00:00:00+00:00",
        "cases": 8,
        "alarms": 1,
        "compared": 160,
        "detectable": CURVE,
        "detectable_worst": CURVE,
    }
    return machine.Noise(**(fields | changed))  # type: ignore[arg-type]


def test_each_device_has_its_newest_entry(tmp_path: Path) -> None:
    """Measuring a device again replaces its entry and leaves those of others."""
    file = tmp_path / "new" / "machine.json"
    machine.keep(noise(), file)
    machine.keep(noise("another"), file)
    machine.keep(noise(alarms=7), file)
    assert [(n.name, n.alarms) for n in machine.load(file).noise] == [("another", 1), ("a CPU", 7)]


def test_advice_says_what_will_be_seen() -> None:
    """What so many launches see, and how many see twice the change that matters."""
    profile = machine.Profile(noise=[noise()])
    line = machine.outlook(profile, HERE, "cpu", "wall", 10, 0.01)
    assert line is not None
    assert "changes of 1.5 % or more with 10 launches" in line
    line = machine.outlook(profile, HERE, "cpu", "wall", 4, 0.01)
    assert line is not None
    assert line.endswith("; 8 detect 2 %")
    line = machine.outlook(profile, HERE, "cpu", "wall", 2, 0.0001)
    assert line is not None
    assert "no change reliably with 2 launches" in line
    assert line.endswith("; not even 40 detect 0.02 %")


@pytest.mark.parametrize(
    ("device", "metric", "threads"), [("cuda", "wall", 2), ("cpu", "graph", 2), ("cpu", "wall", 1)]
)
def test_no_advice_from_another_machine(device: str, metric: str, threads: int) -> None:
    """A profile of other hardware, threads or metric says nothing."""
    here = Environment(cpu="a CPU", threads=threads)
    assert machine.outlook(machine.Profile(noise=[noise()]), here, device, metric, 10, 0.01) is None
    assert machine.outlook(machine.Profile(), HERE, "cpu", "wall", 10, 0.01) is None


@pytest.mark.parametrize("text", ["", "[]", '{"format": "other"}', '{"version": 99}', "\x00", "{"])
def test_damaged_profile_is_one_line(tmp_path: Path, text: str) -> None:
    """What is no profile is refused with its name and the fix."""
    file = tmp_path / "machine.json"
    file.write_text(text)
    with pytest.raises(InvalidInputError, match="flashbench aa --save") as caught:
        machine.load(file)
    assert str(file) in str(caught.value)
