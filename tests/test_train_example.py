"""The example of training learns the same with flashbench's attention as with SDPA's."""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import training_table
import update_tables

from flashbench.extension import build_info

EXAMPLE = Path(__file__).parent.parent / "examples/train_transformer.py"


@pytest.mark.parametrize(("dtype", "tolerance"), [("fp32", 1e-3), ("bf16", 0.05)])
def test_the_losses_overlay(
    dtype: str, tolerance: float, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the same weights both losses fall alike, step for step."""
    example = runpy.run_path(str(EXAMPLE))
    sizes = ["--steps", "25", "--width", "64", "--length", "96", "--batch", "2", "--dtype", dtype]
    trainings = example["train"](example["arguments"](sizes))
    ours, sdpa = trainings["ours"].losses, trainings["sdpa"].losses
    assert len(ours) == len(sdpa) == 25
    assert sum(ours[-5:]) < 0.75 * sum(ours[:5])
    assert max(abs(a - b) / b for a, b in zip(ours, sdpa, strict=True)) < tolerance
    assert "step   20  loss: ours" in capsys.readouterr().out


@pytest.mark.thorough
def test_compiled_losses_overlay(tmp_path: Path) -> None:
    """--compile trains both models as whole graphs, to the losses of uncompiled ones.

    In a process of its own: torch's compiler imports setuptools, which refuses a process where
    another test has imported the standard library's distutils.
    """
    sizes = ["--steps", "3", "--width", "64", "--length", "32", "--batch", "1", "--layers", "1"]
    saved = tmp_path / "compiled.json"
    command = [sys.executable, str(EXAMPLE), *sizes, "--compile", "default", "--save", str(saved)]
    subprocess.run(command, check=True, env=os.environ | {"PYTHONPATH": str(EXAMPLE.parents[1])})
    compiled = json.loads(saved.read_text())["losses"]
    example = runpy.run_path(str(EXAMPLE))
    eager = example["train"](example["arguments"](sizes))
    for name in ("ours", "sdpa"):
        assert compiled[name] == pytest.approx(eager[name].losses, rel=1e-4)


def test_few_steps_have_no_rate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Below 30 steps the losses are printed, and how many steps a rate needs."""
    sizes = ["--steps", "1", "--width", "64", "--length", "8", "--batch", "1", "--layers", "1"]
    monkeypatch.setattr("sys.argv", [str(EXAMPLE), *sizes])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    first, difference, last = capsys.readouterr().out.splitlines()
    assert first.startswith("step    0  loss: ours")
    assert difference.startswith("ours: losses differ by at most ")
    assert last == "tokens a second need --steps 30 or more"


def test_losses_and_rates_are_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """--save writes the sizes, each loss, and the rates with their intervals as printed."""
    file = tmp_path / "training.json"
    sizes = ["--steps", "30", "--width", "64", "--length", "8", "--batch", "1", "--layers", "1"]
    monkeypatch.setattr("sys.argv", [str(EXAMPLE), *sizes, "--save", str(file)])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    saved, out = json.loads(file.read_text()), capsys.readouterr().out
    assert (saved["steps"], saved["width"], saved["dtype"]) == (30, 64, "fp32")
    assert [len(losses) for losses in saved["losses"].values()] == [30, 30]
    assert f"step   20  loss: ours {saved['losses']['ours'][20]:.4f}" in out
    rate, low, high = saved["rates"]["ours"]
    assert f"ours: {rate:.0f} [{low:.0f}, {high:.0f}] tokens a second" in out
    assert all(low <= rate <= high for rate, low, high in saved["rates"].values())
    assert saved["rates"].keys() == {"ours", "sdpa", "ours / sdpa"}
    assert (saved["commit"], saved["torch"]) == (build_info().commit, torch.__version__)


@pytest.mark.parametrize("control", ["again", "math"])
def test_the_control(
    control: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """--control trains with SDPA a second time, and tells its losses and rate as it does ours."""
    file, name = tmp_path / "training.json", f"sdpa {control}"
    sizes = ["--steps", "30", "--width", "64", "--length", "8", "--batch", "1", "--layers", "1"]
    monkeypatch.setattr(
        "sys.argv", [*sys.argv[:1], *sizes, "--control", control, "--save", str(file)]
    )
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    saved, out = json.loads(file.read_text()), capsys.readouterr().out
    assert saved["losses"].keys() == saved["rates"].keys() - {"ours / sdpa", f"{name} / sdpa"}
    step, part = saved["differences"][name]
    assert f"{name}: losses differ by at most {part:.2g} of sdpa's, at step {step}\n" in out
    assert f"{name}: {saved['rates'][name][0]:.0f} [" in out
    assert part < 1e-5  # fp32
    if control == "again":
        assert (
            saved["losses"][name] == saved["losses"]["sdpa"]
        )  # a CPU has the same bits every time


def test_the_table_of_saved_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A row of docs/training.md has the options, both differences, rates and ratios of a file."""
    run: dict[str, object] = {**vars(training_table.train_transformer.arguments([])), "steps": 60}
    run |= {"commit": "0123456789abcdef", "torch": "2.13.0", "machine": "A GPU", "control": "again"}
    run |= {"save": None, "differences": {"ours": [3, 2.1e-7], "sdpa again": [0, 0.0]}}
    rates = {"ours": [2000.4, 1900, 2100], "sdpa": [1000.0, 990, 1010]}
    ratios = {"ours / sdpa": [2.0, 1.9, 2.1], "sdpa again / sdpa": [1.0, 0.99, 1.01]}
    (tmp_path / "run.json").write_text(json.dumps(run | {"rates": rates | ratios}, default=str))
    training_table.main([str(tmp_path / "run.json")])
    title, _, _, _, row = capsys.readouterr().out.splitlines()[:5]
    assert title == "A GPU, torch 2.13.0, flashbench at 0123456789ab; control: `--control again`"
    assert row == (
        "| `--steps 60` | 2.1e-07 | 0 | 2000 \\[1900, 2100] | 1000 \\[990, 1010] | "
        "2.000 \\[1.900, 2.100] | 1.000 \\[0.990, 1.010] |"
    )


def test_the_tables_in_the_docs_are_of_their_files(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a change of results/training: python scripts/update_tables.py."""

    def printed(_: str, *files: str) -> str:
        training_table.main(list(files))
        return capsys.readouterr().out

    page = (EXAMPLE.parents[1] / "docs/training.md").read_text()
    assert "<!-- training: " in page
    monkeypatch.setattr(update_tables, "printed", printed)
    assert update_tables.updated(page) == page


def test_the_largest_difference() -> None:
    """It is a part of SDPA's loss, told with its step."""
    largest_difference = runpy.run_path(str(EXAMPLE))["largest_difference"]
    assert largest_difference([4.0, 2.2, 1.0], [4.0, 2.0, 1.05]) == (1, pytest.approx(0.1))


def test_the_interval_holds_the_ratio() -> None:
    """Steps 20 % slower, under disturbances that both have, are told from equal ones."""
    interval = runpy.run_path(str(EXAMPLE))["interval"]
    random = np.random.default_rng(1)
    disturbed = np.repeat(random.lognormal(0, 0.2, 20), 5)
    times = [disturbed * random.lognormal(0, 0.02, 100) * slower for slower in (1.0, 1.2)]

    def ratio(ours: np.ndarray, sdpa: np.ndarray) -> float:
        return float(np.median(sdpa / ours))

    found, low, high = interval(times, ratio)
    assert low <= found <= high
    assert 1.18 < low < 1.2 < high < 1.22
