"""The whole `flashbench profile`: on this CPU with and without perf, and from a stored GPU
profile."""

import csv
import json
import shutil
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import forks
import msgspec
import pytest
from click.testing import CliRunner
from stored_profiles import ceilings_of_this_cpu

from flashbench.cli import cli
from flashbench.errors import Exit, InvalidInputError
from flashbench.measuring.forks import may_be_gpu
from flashbench.profile import model
from flashbench.revisions.own_files import is_ours
from flashbench.views.profile import document

GPU = Path(__file__).parents[1] / "golden" / "profile_gpu.json"
CASE = "b1-h2-q64-d32-fp32-full-cpu"
MINE = ("--candidate", "mine:attention", "-o", "p.json")
COUNTED = """# started on Sun Nov 22 15:06:40 2026

600.25;msec;task-clock;600250000;100.00;2.000;CPUs utilized
0;;context-switches;600250000;100.00;0.000;/sec
1800000000;;cycles:u;300000000;50.00;2.998;GHz
3600000000;;instructions:u;300000000;50.00;2.00;insn per cycle
9000;;cache-misses:u;300000000;50.00;;
<not supported>;;L1-dcache-load-misses:u;0;100.00;;
"""
# Answers perf's marks, runs the target, and writes what a real perf wrote of one.
PERF = f"""#!{sys.executable}
import subprocess, sys, threading
options, target = sys.argv[1:sys.argv.index("--")], sys.argv[sys.argv.index("--") + 1:]
control, answer = options[options.index("--control") + 1].removeprefix("fifo:").split(",")
def serve():
    with open(control) as asked, open(answer, "w") as answers:
        for line in asked:
            answers.write("ack\\n")
            answers.flush()
threading.Thread(target=serve, daemon=True).start()
code = subprocess.call(target)
with open(options[options.index("-o") + 1], "w") as out:
    out.write({COUNTED!r})
sys.exit(code)
"""

Flashbench = Callable[..., "CompletedProcess[str]"]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with candidates, and this machine's ceilings, so that none are measured."""
    (tmp_path / "mine.py").write_text(
        "from torch.nn.functional import scaled_dot_product_attention as attention\n"
        "def wrong(q, k, v, is_causal=False):\n    return 0 * q\n"
        "def fails(q, k, v, is_causal=False):\n    raise RuntimeError('not today')\n"
        "def nothing(q, k, v, is_causal=False):\n    return q\n"
    )
    ceilings_of_this_cpu(tmp_path / "machine.json")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").symlink_to(shutil.which("git") or "git")
    return tmp_path


@pytest.fixture
def flashbench(place: Path) -> Flashbench:
    """Runs a command there; nothing but git is on its PATH, and in bin/."""

    def run(*arguments: object) -> "CompletedProcess[str]":
        given = {"FLASHBENCH_MACHINE": str(place / "machine.json"), "PATH": str(place / "bin")}
        return forks.run(arguments, place, given)

    return run


@pytest.mark.parametrize(("low", "told"), [(0.23e-3, False), (0.80e-3, True)])
def test_a_stage_within_the_noise_has_no_share(low: float, told: bool) -> None:
    """Where the quartiles of a call and of one without the stage overlap, they are said."""
    found = model.read(GPU)
    found.subjects = found.subjects[:1]
    (one,) = found.subjects
    one.times[found.metric] = model.Time(median=0.2e-3, low=0.15e-3, high=0.79e-3)
    one.variants["softmax"] = model.Time(median=7.5e-3, low=low, high=16e-3)
    shown = document(found)
    assert told == any(row["part"].text == "stages" for row in shown.rows)
    noise = [note.message for note in shown.notes if note.code == "noise"]
    assert noise == [] if told else "150.0 to 790.0 us, without it 230.0 to 16000 us" in noise[0]


def test_without_perf_floors_tell(place: Path, flashbench: Flashbench) -> None:
    """Times, floors, the roofline and why there are no counters; the file prints the same again. A
    call without a stage is timed, though its result is wrong."""
    variants = ["--variant", "all=mine:nothing", "--variant", "luck=mine:fails"]
    done = flashbench("profile", CASE, *MINE, "--against", "sdpa", *variants)
    assert done.returncode == Exit.PASS, done.stderr
    assert "warning: without luck: RuntimeError: not today" in done.stderr
    rows = json.loads(flashbench("profile", "p.json", "--format", "json").stdout)["rows"]
    (row,) = (one for one in rows if one["part"] == "stages")
    assert row["counter"] == "all costs"
    assert 0 < row["value_1"] < 100
    assert "no-counters: attention: there is no perf here: install" in done.stdout
    assert "arithmetic: " in done.stdout
    assert "attention against sdpa: " in done.stdout
    assert "roofline: sdpa: " in done.stdout
    (spent,) = (line for line in done.stdout.splitlines() if line.startswith("device time"))
    assert "cost" not in spent  # no price is set
    assert flashbench("profile", "p.json").stdout == done.stdout
    assert all(is_ours(place, name) for name in ("p.json", "p.svg"))  # no sources of a build
    assert not is_ours(place, "mine.py")
    drawn = ElementTree.fromstring((place / "p.svg").read_text())  # noqa: S314  # our own
    assert drawn.tag.endswith("svg")


def test_ended_while_it_measures_ceilings(place: Path, flashbench: Flashbench) -> None:
    """The first profile of a machine: SIGTERM then loses no time, and the file tells the rest."""
    given = {"FLASHBENCH_MACHINE": str(place / "none.json"), "PATH": str(place / "bin")}
    command = forks.start(["profile", CASE, *MINE], place, given)
    file = place / "p.json"
    while command.poll() is None and not (file.exists() and "no perf" in file.read_text()):
        time.sleep(0.02)
    command.terminate()
    _, errors = command.communicate(30)
    assert command.returncode == Exit.NOT_MEASURED
    assert "interrupted; what was measured is in p.json" in errors
    assert "flashbench: device time " in errors
    done = flashbench("profile", "p.json")
    assert done.returncode == Exit.PASS
    assert "eager wall time" in done.stdout
    assert "no ceiling is known" in done.stdout


def test_ended_while_it_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All is measured then: what it cost is said."""

    def interrupted(*_: object) -> list[str]:
        raise KeyboardInterrupt

    found = model.read(GPU)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("flashbench.profile.collect.collect", lambda *_: found)
    monkeypatch.setattr("flashbench.figures.profiled.draw_roofline", interrupted)
    done = CliRunner().invoke(cli, ["profile", CASE], standalone_mode=False)
    assert str(done.exception) == "interrupted"
    assert f"flashbench: {found.spent.line}" in done.stderr


def test_with_perf(place: Path, flashbench: Flashbench) -> None:
    """Counters of the calls between the marks, a call, extrapolated as perf did it; though the
    other candidate cannot be measured, which the file says and counts."""
    perf = place / "bin" / "perf"
    perf.write_text(PERF)
    perf.chmod(0o755)
    against = ["--against", "mine:missing", "--hourly-rate", "3.60usd"]
    done = flashbench("profile", CASE, *MINE, *against, "--format", "json")
    assert done.returncode == Exit.PASS, done.stderr
    text = flashbench("profile", "p.json").stdout
    assert "status: missing is error: " in text
    assert "attention: bound by " in text
    profile = model.read(place / "p.json")
    subject = profile.subjects[0]
    assert (profile.hourly_rate, profile.currency) == (3.6, "usd")
    assert subject.without == ""
    assert subject.counters["instructions"] == 2 * subject.counters["cycles"]
    assert "L1-dcache-load-misses" not in subject.counters
    calls = 0.60025 / subject.counters["task-clock"]
    assert calls == pytest.approx(round(calls))
    document = json.loads(done.stdout)
    rows = {row["counter"]: row for row in document["rows"]}
    assert document["summary"]["cost"] == pytest.approx(profile.device_seconds / 1000)
    again = flashbench("profile", "p.json", "--format", "csv").stdout.splitlines()
    for row in csv.DictReader(again):
        assert float(row["device_seconds"]) == profile.device_seconds
        assert float(row["cost"]) == pytest.approx(profile.device_seconds / 1000)
    assert rows["instructions a cycle"]["value_1"] == 2


def test_perf_really_counts(place: Path, flashbench: Flashbench) -> None:
    """The real perf, where it is: what the system counts itself is there on any machine."""
    perf = shutil.which("perf")
    if perf is None:
        pytest.skip("perf is not installed")
    (place / "bin" / "perf").symlink_to(perf)
    done = flashbench("profile", CASE, *MINE)
    assert done.returncode == Exit.PASS, done.stderr
    (subject,) = model.read(place / "p.json").subjects
    if "may not count" not in subject.without:
        assert 0 < subject.counters["task-clock"] < 60
        assert subject.counters["seconds"] > 0


def test_a_wrong_result_is_profiled_and_said(flashbench: Flashbench) -> None:
    """It has no time, and the exit code of a wrong result."""
    done = flashbench("profile", CASE, "--candidate", "mine:wrong", "-o", "p.json")
    assert done.returncode == Exit.REGRESSION, done.stderr
    assert "status: wrong is wrong: " in done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--candidate", "mine:fails"], Exit.NOT_MEASURED, "not today"),
        (["--candidate", "mine:missing"], Exit.NOT_MEASURED, "no function 'missing'"),
        (["--candidate", "sdpa:mine"], Exit.USAGE, "backend 'mine' is unknown"),
        (["--against", "flashbench"], Exit.USAGE, "is the candidate itself"),
        (["--variant", "half"], Exit.USAGE, "'half': write it as stage=module:function"),
        (["-o", "mine.py"], Exit.USAGE, "mine.py: already exists"),
        (["-o", "mine.py/p.json"], Exit.USAGE, "mine.py/p.json: cannot be written"),
    ],
)
def test_errors(flashbench: Flashbench, arguments: list[str], code: Exit, said: str) -> None:
    """One line names the problem."""
    done = flashbench("profile", CASE, *arguments)
    assert done.returncode == code
    assert said in done.stderr.splitlines()[-1]
    # Only what was launched cost something, and has no result (not said of less than 0.05 s).
    assert (": device time " in done.stderr) == (code == Exit.NOT_MEASURED)
    assert done.stdout == ""


@pytest.mark.parametrize("wrong", ["price", "machine"])
def test_settings_are_read_before_a_launch(place: Path, flashbench: Flashbench, wrong: str) -> None:
    """A mistake there costs no device time."""
    prices = '[tool.flashbench.prices]\nEPYC = {hourly = "3.60usd", date = "2024-01-31"}\n'
    file = {"price": "pyproject.toml", "machine": "machine.json"}[wrong]
    (place / file).write_text(prices)
    done = flashbench("profile", CASE, *MINE)
    assert done.returncode == Exit.USAGE
    (line,) = done.stderr.splitlines()
    assert file in line


def _first(document: Any, **changed: object) -> Any:
    first, *others = document["subjects"]
    return document | {"subjects": [first | changed, *others]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d | {"version": 2}, "schema 2, this one reads 1"),
        (lambda d: d | {"format": "x"}, "not a profile"),
        (lambda d: d | {"subjects": []}, "it has no candidate"),
        (lambda d: d | {"subjects": 3}, "damaged profile"),
        (lambda d: d | {"case": {**d["case"], "dtype": "int4"}}, "damaged profile"),
        (lambda d: _first(d, times={"gpu_warm": {"median": 0, "low": 0, "high": 0}}), "impossible"),
        (lambda d: _first(d, counters={"cycles": -1}), "impossible"),
        (lambda d: d | {"ceilings": {**d["ceilings"], "bytes_per_second": -1}}, "impossible"),
    ],
)
def test_damaged_profiles(tmp_path: Path, change: Callable[[Any], Any], said: str) -> None:
    """A file is refused in one line that names it."""
    path = tmp_path / "p.json"
    path.write_text(json.dumps(change(json.loads(GPU.read_text()))))
    with pytest.raises(InvalidInputError, match=said):
        model.read(path)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([str(GPU), "--against", "sdpa"], "--against is for a new profile"),
        ([str(GPU), "-o", "other.json"], "-o is for a new profile"),
        ([CASE, "--cold"], "--cold empties the L2 cache of a GPU"),
        pytest.param(
            [CASE.replace("-cpu", "-cuda")],
            "no GPU here",
            marks=pytest.mark.skipif(may_be_gpu("auto"), reason="there is a GPU"),
        ),
    ],
)
def test_mistakes_are_refused_before_a_launch(
    flashbench: Flashbench, arguments: list[str], said: str
) -> None:
    """In one line that names the option as the user wrote it."""
    done = flashbench("profile", *arguments)
    assert done.returncode in (Exit.USAGE, Exit.NOT_MEASURED)
    assert said in done.stderr
    assert "timing one launch" not in done.stderr


def test_a_candidate_called_cost_hides_no_cost() -> None:
    """The bottlenecks of the summary have keys of their own."""
    profile = model.read(GPU)
    profile.subjects[0].candidate.name = "cost"
    summary = document(profile).summary
    assert summary["cost"] is None
    assert "bottleneck:cost" in summary


def test_names_in_the_picture_are_escaped(tmp_path: Path) -> None:
    """Candidates are called as users, or files, say."""
    from flashbench.figures.roofline import profiled
    from flashbench.figures.svg import sheet
    from flashbench.profile.roofline import roofline

    profile = model.read(GPU)
    profile.subjects[0].candidate.name = "<script>&"
    line = roofline(profile)
    assert line is not None
    drawn = sheet(profiled(line, 'a "case" <b>'))
    ElementTree.fromstring(drawn)  # noqa: S314  # our own
    assert "<script>" not in drawn


def test_document_survives_its_file(tmp_path: Path) -> None:
    """Loading returns what was saved."""
    profile = model.read(GPU)
    model.save(profile, tmp_path / "p.json")
    assert model.read(tmp_path / "p.json") == profile
    assert msgspec.json.decode((tmp_path / "p.json").read_bytes())["version"] == 1
