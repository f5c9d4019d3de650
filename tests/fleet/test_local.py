"""Several devices of one machine. Slots are any environments: two of the CPU stand for two GPUs."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import forks
import pytest

from flashbench import runfile
from flashbench.cli.fleet import plan_flags
from flashbench.cli.run import command, plan_of
from flashbench.errors import InvalidInputError
from flashbench.fleet.gpus import Gpu, choose
from flashbench.fleet.local import Slot, measure_on_slots
from flashbench.measuring.run_document import plan_to_resume
from flashbench.run_plan import RunEnd
from flashbench.runfile import RunFile
from flashbench.shard import Shard

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TINY = [
    "--shape", "1,1,8,32", "--shape", "1,1,16,32", "--dtype", "fp32", "--threads", "1",
    "--min-sample", "0.1ms", "--samples", "2", "--device", "cpu", "--backends", "default",
]  # fmt: skip
# Started by themselves: the candidate kills the process that started its own.
COUNTED = ["--candidate", "tests.fleet.counted:attention", "--workers", "fresh"]
PLANNED = [Shard(1, 2, (0, 1)), Shard(2, 2, (2, 3))]  # as a planner assigns four cases


@pytest.fixture(autouse=True)
def _at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def measure(
    path: Path,
    slots: list[Slot],
    arguments: list[str],
    resumed: RunFile | None,
    tell: Callable[[str], None],
) -> RunEnd:
    context = command.make_context("run", [*TINY, *arguments])
    plan, flags = plan_of(context.params), plan_flags(context)
    if resumed:
        plan, flags = plan_to_resume(resumed, path), []
    shards = PLANNED if len(slots) == len(PLANNED) else ()
    return measure_on_slots(plan, path, slots, flags, tell, resumed, shards)


# `measure` in a process of its own: what it tells goes to stderr, how it ended to stdout.
SCRIPT = """
import json, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from fleet.test_local import Slot, measure
from flashbench import runfile
from flashbench.errors import FlashbenchError
path, slots, arguments, resume = Path(sys.argv[2]), *map(json.loads, sys.argv[3:])
resumed = runfile.read(path) if resume else None
try:
    end = measure(path, [Slot(*one) for one in slots], arguments, resumed,
                  lambda line: print(line, file=sys.stderr))
except FlashbenchError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
assert end.run == runfile.read(path)
print(json.dumps([end.interrupted, end.over_budget, end.failed]))
sys.exit(4 if end.interrupted else 0)
"""


@dataclass
class Ended:
    interrupted: bool
    over_budget: bool
    failed: bool
    told: list[str]


def script(path: Path, slots: list[Slot], arguments: list[str], resume: bool = False) -> list[str]:
    named = json.dumps([(slot.name, dict(slot.environment)) for slot in slots])
    return [str(ROOT / "tests"), str(path), named, json.dumps(arguments), json.dumps(resume)]


def measured(path: Path, slots: list[Slot], arguments: list[str], resume: bool = False) -> Ended:
    """`measure` in a fork, and its tasks in forks of that."""
    process = forks.start(script(path, slots, arguments, resume), ROOT, script=SCRIPT)
    stdout, stderr = process.communicate()
    assert process.returncode == 0, stderr
    return Ended(*json.loads(stdout), stderr.splitlines())


def cells(run: RunFile) -> set[tuple[int, str, str]]:
    return {(x.index, r.case, r.candidate) for x in run.launches for r in x.results}


def test_two_slots_measure_the_whole_grid(tmp_path: Path) -> None:
    """Each slot measures its cases under its name and environment; nothing but the file remains."""
    slots = [
        Slot(f"cpu {i}", {"FLASHBENCH_TEST_COUNT": str(tmp_path / f"{i}"),
                          "FLASHBENCH_TEST_LIMIT": "99"})
        for i in (0, 1)
    ]  # fmt: skip
    path = tmp_path / "run.json"
    outcome = measured(path, slots, [*COUNTED, "--launches", "2"])
    assert (outcome.failed, outcome.interrupted, outcome.over_budget) == (False, False, False)
    run = runfile.read(path)
    assert len(cells(run)) == 2 * 4 * 2
    assert all(launch.complete for launch in run.launches)
    assert run.settings.shard == ""
    assert [(tmp_path / name).read_text() for name in "01"] == ["xx", "xx"]
    for name in ("cpu 0", "cpu 1"):
        assert any(line.startswith(f"{name}: launch 2 of 2") for line in outcome.told)
    assert {entry.name for entry in tmp_path.iterdir()} == {"0", "1", "run.json"}


def counting(place: Path, limit: int) -> dict[str, str]:
    """The environment of a slot that dies when it starts more workers than `limit`."""
    return {"FLASHBENCH_TEST_COUNT": str(place), "FLASHBENCH_TEST_LIMIT": str(limit)}


def test_cases_of_a_lost_slot_go_to_another(tmp_path: Path) -> None:
    """A task killed in its third launch: the other slot measures the rest, and no more. Its seconds
    since it last saved are in the total."""
    slots = [Slot("cpu 0", {}), Slot("cpu 1", counting(tmp_path / "count", 2))]
    path = tmp_path / "run.json"
    outcome = measured(path, slots, [*COUNTED, "--launches", "3"])
    assert not outcome.failed
    assert "cpu 1 was lost; cpu 0 takes its cases" in outcome.told
    run = runfile.read(path)
    assert [len(launch.results) for launch in run.launches] == [8, 8, 8]
    assert all(launch.complete for launch in run.launches)
    assert run.costs.lost_seconds > 0
    assert (tmp_path / "count").read_text() == "xxx"
    assert {entry.name for entry in tmp_path.iterdir()} == {"count", "run.json"}


def test_crash_of_all_slots_loses_nothing_and_is_resumed(tmp_path: Path) -> None:
    """A task killed in its third launch, and again where another slot took it: its two launches
    and all of the others are in the file; a resumed run starts a task for its cases alone."""
    slots = [
        Slot("cpu 0", counting(tmp_path / "other", 3)),
        Slot("cpu 1", counting(tmp_path / "count", 2)),
    ]
    path = tmp_path / "run.json"
    outcome = measured(path, slots, [*COUNTED, "--launches", "3"])
    assert outcome.failed
    assert outcome.told[-1] == "warning: cpu 1: 1 of 3 launches are unfinished: killed by SIGKILL"
    run = runfile.read(path)
    assert [len(launch.results) for launch in run.launches] == [8, 8, 4]
    assert [launch.complete for launch in run.launches] == [True, True, False]
    outcome = measured(path, [Slot("new 0", {}), Slot("new 1", {})], [], resume=True)
    assert not outcome.failed
    assert {line.partition(":")[0] for line in outcome.told} == {"new 0"}
    again = runfile.read(path)
    assert [len(launch.results) for launch in again.launches] == [8, 8, 8]
    assert again.launches[:2] == run.launches[:2]


def test_budget_is_shared(tmp_path: Path) -> None:
    """The slots together spend the budget, not each of them; the run is over budget, not failed."""
    path = tmp_path / "run.json"
    many = ["--launches", "1000", "--budget", "4s", "--baseline-only"]
    outcome = measured(path, [Slot("a", {}), Slot("b", {})], many)
    assert (outcome.failed, outcome.over_budget) == (False, True)
    run = runfile.read(path)
    assert run.settings.budget_seconds == 4
    assert run.device_seconds < 4 + 2 * (5 + 2)  # each has a grace, and the end of a process


def test_nothing_measured_has_the_words_of_the_first(tmp_path: Path) -> None:
    """If no slot can measure, its error is the error, and no directory remains."""
    nosuch = ["--candidate", "tests.fleet.counted:nosuch"]
    arguments = script(tmp_path / "r", [Slot("a", {})], nosuch)
    process = forks.start(arguments, ROOT, script=SCRIPT)
    _, errors = process.communicate()
    assert process.returncode == 4
    assert re.search(r"a: .*no function 'nosuch'", errors)
    assert not list(tmp_path.iterdir())


def start_process(arguments: list[str]) -> "subprocess.Popen[bytes]":
    """As users do."""
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])},
    )


def start_fork(arguments: list[str]) -> forks.Command:
    return forks.start(arguments, ROOT, script=SCRIPT)


def start(path: Path, how: Callable[[list[str]], Any]) -> Any:
    """A run on two slots, of which both have finished a launch."""
    endless = ["--baseline-only", "--launches", "1000"]
    process = how(script(path, [Slot("a", {}), Slot("b", {})], endless))
    parts = [path.with_name("run.json.parts") / f"part-{i}-of-2.json" for i in (1, 2)]
    deadline = time.monotonic() + 60
    while not all(part.exists() and runfile.read(part).launches[0].complete for part in parts):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_merges_what_was_measured(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C and SIGTERM end all tasks; the file has what each had, the directory is gone."""
    path = tmp_path / "run.json"
    process = start(path, start_fork)
    process.send_signal(number)
    assert process.wait(60) == 4
    run = runfile.read(path)
    assert run.launches[0].complete
    assert len(run.launches[0].results) == 4
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.json"]


def test_killed_run_leaves_parts_to_merge(tmp_path: Path) -> None:
    """SIGKILL: the tasks notice, save and end; their parts are not overwritten but merged."""
    path = tmp_path / "run.json"
    process = start(path, start_process)
    process.kill()
    process.wait()
    directory = tmp_path / "run.json.parts"
    deadline = time.monotonic() + 60
    while any(is_task_of(directory, other) for other in Path("/proc").glob("[0-9]*")):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert directory.stat().st_mode & 0o777 == 0o700
    with pytest.raises(InvalidInputError, match="flashbench merge"):
        measure(path, [Slot("a", {}), Slot("b", {})], ["--baseline-only"], None, print)
    parts = sorted(map(str, directory.glob("part-*.json")))
    done = forks.run(["merge", *parts, "-o", path], ROOT)
    assert done.returncode == 0
    assert runfile.read(path).launches[0].complete


def is_task_of(directory: Path, process: Path) -> bool:
    try:
        return str(directory).encode() in (process / "cmdline").read_bytes()
    except OSError:
        return False


FOUR = [Gpu(str(i), f"GPU-{i}", "H200") for i in range(4)]


@pytest.mark.parametrize(
    ("text", "indices"),
    [("all", "0123"), ("1", "0"), ("2", "01"), ("3,1", "31"), ("0,1,3", "013")],
)
def test_gpus_are_chosen(text: str, indices: str) -> None:
    """All, the first N, or these."""
    assert "".join(gpu.index for gpu in choose(text, FOUR)) == indices


@pytest.mark.parametrize("text", ["0", "5", "1,1", "0,4", "", "x", "-1", "1,", "1" * 30])
def test_bad_gpus_are_refused(text: str) -> None:
    """What is not there, or not understood, is refused."""
    with pytest.raises(InvalidInputError, match="--gpus"):
        choose(text, FOUR)


def test_gpus_of_two_models_are_refused() -> None:
    """Their times would differ without a reason in the kernel; one model among them is taken."""
    mixed = [*FOUR, Gpu("4", "GPU-4", "H100")]
    with pytest.raises(InvalidInputError, match="H200 and H100"):
        choose("all", mixed)
    assert len(choose("4", mixed)) == 4


def run(directory: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return forks.run(["run", *arguments], directory, environment)


def fake_driver(directory: Path, *models: str) -> dict[str, str]:
    """An nvidia-smi that lists GPUs."""
    rows = "".join(f"{i}, GPU-aaaa{i}, {model}\n" for i, model in enumerate(models))
    program = directory / "nvidia-smi"
    program.write_text(f"#!/bin/sh\ncat <<END\n{rows}END\n")
    program.chmod(0o755)
    return {"PATH": f"{directory}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.parametrize(
    ("arguments", "models", "code", "words"),
    [
        (["--gpus", "all", "--device", "cpu"], ["H200"], 2, "disturb each other"),
        (["--gpus", "2", "--shard", "1/2"], ["H200"], 2, "drop one"),
        (["--gpus", "all"], [], 4, "no GPU is visible"),
        (["--gpus", "all"], ["H200", "H100"], 2, "H200 and H100"),
    ],
)
def test_fleets_that_cannot_be(
    tmp_path: Path, arguments: list[str], models: list[str], code: int, words: str
) -> None:
    """What cannot be spread over GPUs is said in one line before anything starts."""
    done = run(tmp_path, *arguments, "-o", str(tmp_path / "x"), **fake_driver(tmp_path, *models))
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "x.parts").exists()


def test_visible_devices_are_respected(tmp_path: Path) -> None:
    """CUDA_VISIBLE_DEVICES limits and orders what --gpus counts."""
    driver = fake_driver(tmp_path, "H100", "H200", "H200")
    mixed = run(tmp_path, "--gpus", "all", CUDA_VISIBLE_DEVICES="2,0", **driver)
    assert "H200 and H100" in mixed.stderr
    unknown = run(tmp_path, "--gpus", "all", CUDA_VISIBLE_DEVICES="7", **driver)
    assert "CUDA_VISIBLE_DEVICES names '7'" in unknown.stderr
    assert (mixed.returncode, unknown.returncode) == (2, 2)


def test_settings_do_not_spread_shards_or_the_cpu(tmp_path: Path) -> None:
    """`gpus` in pyproject.toml is for new, whole runs on GPUs: the others go on as asked."""
    (tmp_path / "pyproject.toml").write_text('[tool.flashbench.run]\ngpus = "all"\n')
    out = tmp_path / "out.json"
    quick = [*TINY, "--baseline-only", "--launches", "1", "--format", "none", "-o", str(out)]
    assert run(tmp_path, *quick).returncode == 0
    assert run(tmp_path, "--resume", str(out), "--format", "none").returncode == 0
    assert run(tmp_path, *quick, "--shard", "1/2", "--force").returncode == 0


def test_task_of_a_dead_parent_ends_before_it_measures(tmp_path: Path) -> None:
    """A parent that died before its task could ask for a signal is noticed all the same."""
    path = tmp_path / "run.json"
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    done = subprocess.run(
        [sys.executable, "-m", "flashbench", "run", "--child", "--device", "cpu", "-o", str(path)],
        env=os.environ | {"FLASHBENCH_TASK_OF": str(gone.pid)},
        cwd=ROOT,
    )
    assert done.returncode == -signal.SIGTERM
    assert not path.exists()
