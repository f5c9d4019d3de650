"""`flashbench plan`: its output, its refusals, and that it measures nothing."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result
from history.project import make_repository
from synthetic import make_cases, make_run

from flashbench import machine
from flashbench.cli import cli
from flashbench.cost import store
from flashbench.cost.store import CandidateCost, CaseCost, CostRecords, MachineCosts, StartCost
from flashbench.runfile import save

Plan = Callable[..., Result]

CASES = ("b1-h1-q32-d64-fp32-full-cpu", "b1-h1-q32-d64-fp32-causal-cpu")
TWO = ["--shape", "1,1,32,64", "--dtype", "fp32", "--launches", "10"]

TEXT = """\
plan of `flashbench run`: 2 cases x 3 candidates x 10 launches
on Test CPU, 2 threads; nothing was measured

what                             count  seconds  at least  at most  cost usd
-------------------------------  -----  -------  --------  -------  --------
starts of workers                   10       11       7.2       18     0.055
cases                               20      6.4       4.2       10     0.032
more checks in the first launch      2      1.0       0.7      1.6    0.0050
device time                                  18        12       29     0.092
all, by the clock                            19        12       32      0.10

known: from 12 launches on this machine, the last on 2026-01-31
money: about 0.10 usd, 0.061 usd to 0.16 usd, at 18.00 usd an hour
over --budget 0.07usd: 14 s of it would be measured
fits: 7 of 10 launches of all cases, or all launches of 0 of 2 cases
"""


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """The command, in an empty directory of a machine that measured two cases before."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLASHBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(machine, "cpu_name", lambda: "Test CPU")
    monkeypatch.setattr(machine, "ask_nvidia_smi", lambda *_: [""])
    one = CandidateCost(call=1e-3, fixed=0.02, turn=2e-3, stretch=1.0)
    specs = ("sdpa", "sdpa:math", "flashbench")
    case = CaseCost(every=0.092, first=0.5, candidates=dict.fromkeys(specs, one))
    known = MachineCosts(
        device="cpu",
        name="Test CPU",
        threads=2,
        updated="2026-01-31T00:00:00",
        launches=12,
        starts={"1": StartCost(2.0, 1.0, 2.0)},
        cases=dict.fromkeys(CASES, case),
    )
    store.path().parent.mkdir(parents=True)
    store.path().write_bytes(store.msgspec.json.encode(CostRecords(machines=[known])))

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(cli, ["plan", *arguments], standalone_mode=False)

    return run


def test_text_is_what_it_was(plan: Plan) -> None:
    """The whole table, with its money and what fits the budget."""
    found = plan("run", *TWO, "--samples", "20", "--hourly-rate", "18usd", "--budget", "0.07usd")
    assert found.stdout == TEXT


@pytest.mark.parametrize(
    ("budget", "says"),
    [
        ("0.9s", "over --budget 0.9s: below half of the shortest start of workers here, nothing"),
        ("1s", "over --budget 1s: starting workers would likely spend it before anything"),
        ("3s", "over --budget 3s: 3 s of it would be measured"),
        ("0.01usd", "over --budget 0.01usd: builds and starting workers would likely spend it"),
    ],
)
def test_a_budget_below_a_start_measures_nothing(plan: Plan, budget: str, says: str) -> None:
    """A worker starts in two seconds."""
    shown = plan("run", *TWO, "--hourly-rate", "36", "--budget", budget).stdout
    assert says in shown
    assert ("fits: " in shown) == (budget == "3s")


def test_a_rate_has_the_currency_of_the_budget(plan: Plan) -> None:
    """If it names none itself; a plan without a budget in money shows none."""
    assert "cost eur" in plan("run", *TWO, "--hourly-rate", "18", "--budget", "1eur").stdout
    assert "at 18.00 an hour" in plan("run", *TWO, "--hourly-rate", "18").stdout


def test_json_has_the_numbers(plan: Plan, tmp_path: Path) -> None:
    """For programs: estimates with ranges; nothing was written but the plan."""
    before = sorted(tmp_path.rglob("*"))
    found = plan("run", *TWO, "-o", "new.json", "--format", "json")
    summary = json.loads(found.stdout)["summary"]
    assert summary["based_on"] == "known"
    assert summary["device_seconds_low"] < summary["device_seconds"]
    assert summary["device_seconds"] < summary["device_seconds_high"]
    assert summary["wall_seconds"] > summary["device_seconds"]
    assert summary["wall_cost"] is None
    assert sorted(tmp_path.rglob("*")) == before


def test_missing_knowledge_is_said(plan: Plan) -> None:
    """A case like those that were measured, and a GPU that never was."""
    assert "1 of 2 cases are estimated" not in plan("run", *TWO).stdout
    near = plan("run", *TWO, "--shape", "1,8,512,64").stdout
    assert "2 of 4 cases are estimated from the cases most like them" in near
    guess = plan("run", "--device", "cuda", "--shape", "1,1,32,64").stdout
    assert "no earlier run on this machine: a guess" in guess


def test_prices_of_the_settings_count(plan: Plan, tmp_path: Path) -> None:
    """By the name of the device, with the source; a device that is not there has no money."""
    entry = '{ hourly = "3.60usd", date = "2026-01-31", source = "example.com" }'
    (tmp_path / "pyproject.toml").write_text(f'[tool.flashbench.prices]\n"Test CPU" = {entry}\n')
    assert "3.60 usd an hour (Test CPU, 2026-01-31, example.com)" in plan("run", *TWO).stdout
    assert "no price" in plan("run", "--device", "cuda", "--shape", "1,1,32,64").stdout
    (tmp_path / "pyproject.toml").write_text(
        f'[tool.flashbench.prices]\n"Test CPU" = {entry.replace("2026", "2020")}\n'
    )
    assert "the price is more than a year old: Test CPU, 2020" in plan("run", *TWO).stderr


def test_shares_end_sooner_and_cost_more(plan: Plan) -> None:
    """Two GPUs take each half of the cases, and start every launch both. Both are paid for, and
    each may spend half of a budget."""
    run = ["run", "--device", "cuda", "--preset", "small", "--hourly-rate", "36usd"]
    run += ["--budget", "0.12usd"]  # 12 s, of which a start takes 8
    asked = [*run, "--format", "json"]
    alone = json.loads(plan(*asked).stdout)["summary"]
    both = json.loads(plan(*asked, "--gpus", "2").stdout)["summary"]
    assert both["wall_seconds"] < alone["wall_seconds"]
    assert both["device_seconds"] > alone["device_seconds"]
    assert both["wall_cost"] > both["device_cost"] > alone["wall_cost"]
    assert (alone["launches_that_fit"], both["launches_that_fit"]) == (1, 0)
    shown = plan(*run, "--gpus", "2").stdout
    assert "starting workers would likely spend it before anything is measured" in shown
    assert both["shards"] == "1/2 2/2"
    assert alone["shards"] is None


def test_the_tolerance_is_one_that_the_budget_pays_for(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the launches that fit, which are fewer than --launches and are told."""
    make_repository(tmp_path / "project", ["One"])
    settings = '[tool.flashbench.project]\ncallable = "kernel:attention"\nbuild = []\n'
    (tmp_path / "project/pyproject.toml").write_text(settings)
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("FLASHBENCH_MACHINE", str(tmp_path / "machine.json"))
    curve = [0.05] * 9 + [0.02] * 31
    noise = machine.Noise(
        device="cpu", name="Test CPU", threads=2, metric="wall", measured="2026-01-31",
        cases=8, alarms=0, compared=8, detectable=[], detectable_worst=[], attainable=curve,
    )  # fmt: skip
    machine.keep(noise, machine.path())
    asked = ["compare", "HEAD", "HEAD", *TWO[:4]]
    enough, few = plan(*asked), plan(*asked, "--budget", "12s")
    assert "tolerance 2 %" in enough.stderr
    assert "--budget" not in enough.stderr
    assert "tolerance 5 %" in few.stderr
    assert re.search(r"within [2-9] launches, for which --budget pays \(8 cases", few.stderr)


def test_all_gpus_are_those_of_this_machine(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `run` would choose them, and more of them are refused."""
    (tmp_path / "nvidia-smi").write_text(
        "#!/bin/sh\nfor place in 0 1 2 3; do echo $place, GPU-$place, H100; done\n"
    )
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    run = ["run", "--device", "cuda", "--preset", "models"]
    assert plan(*run, "--gpus", "all").stdout == plan(*run, "--gpus", "4").stdout
    assert "4 share the cases" in plan(*run, "--gpus", "all").stdout
    assert "4 GPUs are visible here" in str(plan(*run, "--gpus", "9").exception)


def test_a_resumed_run_is_planned_as_its_file_says(plan: Plan, tmp_path: Path) -> None:
    """With the cases, candidates, samples and launches of the file; what `run` refuses is
    refused."""
    rng = np.random.default_rng(7)
    run = make_run(rng, cases=make_cases(3), launches=4, samples=5)
    save(run, tmp_path / "run.json")
    resume = ["run", "--resume", "run.json"]
    shown = plan(*resume, "--launches", "10").stdout
    assert "3 cases x 2 candidates x 6 launches" in shown
    assert "run.json has 4 of 10 launches" in shown
    for refused in (["--samples", "4"], ["--candidate", "other:f"]):
        assert "cannot be changed with --resume" in str(plan(*resume, *refused).exception)
    assert "fewer than the 4" in str(plan(*resume, "--launches", "2").exception)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "--gpus", "all", "--device", "cuda"], "--gpus all"),
        (["run", "--budget", "0.50usd"], "costs is not known"),
        (["run", "--budget", "0.50abc"], "is no currency"),
        (["run", "--budget", "1usd", "--hourly-rate", "1eur"], "one currency"),
        (["run", "--nonsense"], "--nonsense"),
        (["run", "--gpus", "0"], "--gpus 0: name one or more GPUs"),
        (["run", "--gpus", "a,b"], "invalid --gpus 'a,b'"),
        (["run", "--resume", "gone.json"], "gone.json: cannot be read: No such file"),
        (["compare", "a.json", "b.json"], "nothing to plan"),
        (["run", "--gpus", "2", "--shard", "1/2"], "do not go together"),
        (["bisect", "--good", "x", "--for", "build", "--launches", "3"], "is for --for speed"),
        (["show"], "show"),
    ],
)
def test_what_cannot_be_planned_is_refused(plan: Plan, arguments: list[str], words: str) -> None:
    """As the command itself would, or because it measures nothing."""
    error = plan(*arguments).exception
    assert error is not None
    text = error.format_message() if isinstance(error, click.ClickException) else str(error)
    assert words in text
