"""The machine's profile: what `aa` keeps for planning."""

from pathlib import Path

import numpy as np
import pytest
from synthetic import make_cases, make_pair

from flashbench import machine
from flashbench.cli.compare import command
from flashbench.cli.measuring import plan_options, said_tolerance, tell
from flashbench.comparing.tolerance import chosen_tolerance
from flashbench.errors import InvalidInputError
from flashbench.measuring.plan import Plan
from flashbench.revisions import read
from flashbench.runfile import Environment, RunFile

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
    assert [(n.name, n.alarms) for n in machine.read(file).noise] == [("another", 1), ("a CPU", 7)]


def test_advice_says_what_will_be_seen() -> None:
    """What so many launches see, and how many see twice the change that matters."""
    profile = machine.Profile(noise=[noise()])
    line = machine.outlook(profile, HERE, "cpu", "wall", 10, 0.01)
    assert line is not None
    assert "changes of 1.5 % or more with 10 launches" in line
    line = machine.outlook(profile, HERE, "cpu", "wall", 200, 0.01)
    assert line is not None
    assert "with 40 launches (half" in line  # no more are in the profile
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


def attainable(
    device: str = "cpu", threads: int | None = None, launches: int = 40, **changed: object
):  # type: ignore[no-untyped-def]
    curve = [None] * 9 + [0.05] * 10 + [0.02] * 21
    kept = noise(machine.cpu_name(), **({"attainable": curve} | changed))
    profile = machine.Profile(noise=[kept])
    return machine.attainable_tolerance(profile, device, "wall", threads, launches, 0.01)


def test_the_attainable_tolerance_is_chosen_aloud() -> None:
    """The tolerance by so many launches, with where it is from and how to insist on the default."""
    chosen, line = attainable()
    assert chosen == 0.02
    assert line == (
        "tolerance 2 %: according to its profile of 2026-01-01, this machine cannot call an "
        "unchanged build SAME at 1 % within 40 launches (8 cases, 80 % power each); "
        "--tolerance 1% insists"
    )
    assert attainable(launches=12)[0] == 0.05
    assert attainable(launches=400) == attainable(launches=40)
    chosen, line = attainable(launches=5)
    assert chosen == 0.01
    assert line.endswith("80 % power each), nor at a larger tolerance; 10 launches reach 5 %")
    assert attainable(attainable=[None] * 40)[1].endswith("nor at a larger tolerance")


@pytest.mark.parametrize(
    "other",
    [{"attainable": [0.01] * 40}, {"attainable": []}, {"metric": "graph"}, {"device": "cuda"}],
)
def test_the_default_tolerance_stays(other: dict[str, object]) -> None:
    """Where it is attained, and without an entry for this device, its threads and its metric."""
    assert attainable(threads=3) == attainable(**other) == (0.01, "")


def test_flag_and_resumed_file_outrank_the_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The profile replaces only the default; one that is damaged changes nothing."""
    file = tmp_path / "machine.json"
    monkeypatch.setenv("FLASHBENCH_MACHINE", str(file))
    project = read(Path(__file__).parent)
    monkeypatch.chdir(tmp_path)
    machine.keep(noise(machine.cpu_name(), attainable=[0.03] * 40), file)

    def tolerance(*flags: str, resumed: RunFile | None = None) -> float:
        context = command.make_context("compare", ["A", "B", "--device", "cpu", *flags])
        plan = Plan(**plan_options(context.params), candidates=[])
        return chosen_tolerance(said_tolerance(context), plan, project, resumed, tell)

    assert tolerance() == 0.03
    assert "tolerance 3 %: according to" in capsys.readouterr().err
    run = make_pair(np.random.default_rng(0), cases=make_cases(1), launches=1)
    assert run.pair is not None
    run.pair.tolerance = 0.04
    assert tolerance(resumed=run) == 0.04
    assert tolerance("--tolerance", "2%", resumed=run) == 0.02
    (tmp_path / "pyproject.toml").write_text('[tool.flashbench.compare]\ntolerance = "5%"\n')
    assert tolerance() == 0.05
    (tmp_path / "pyproject.toml").unlink()
    file.write_text("{")
    assert tolerance() == 0.01
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("text", ["", "[]", '{"format": "other"}', '{"version": 99}', "\x00", "{"])
def test_damaged_profile_is_one_line(tmp_path: Path, text: str) -> None:
    """What is no profile is refused with its name and the fix."""
    file = tmp_path / "machine.json"
    file.write_text(text)
    with pytest.raises(InvalidInputError, match="flashbench aa --save") as caught:
        machine.read(file)
    assert str(file) in str(caught.value)
