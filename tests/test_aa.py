"""`flashbench aa`: comparisons of a build with itself."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from synthetic import make_cases, make_pair

from flashbench import machine
from flashbench.aa import MOST_LAUNCHES, compare_with_itself, detectable_changes
from flashbench.errors import Exit
from flashbench.launches import collect

ROOT = Path(__file__).parents[1]


def test_launches_are_cut_into_comparisons() -> None:
    """45 launches are three comparisons of 14; the three that are left over are in none."""
    run = make_pair(np.random.default_rng(1), cases=make_cases(4), launches=45)
    found = compare_with_itself(collect(run), 14, 0.01, 0.05)
    assert found.family.trials == found.fixed.trials == 3
    assert found.alarms.trials == 12
    assert [noise.case.id for noise in found.cases] == [case.id for case in run.cases]
    # Two builds with 0.5 % between launches each, and what their samples add.
    assert all(0.004 < (noise.deviation or 0) < 0.012 for noise in found.cases)


def test_a_difference_is_an_alarm_in_every_comparison() -> None:
    """Where the copies do differ, by much, every comparison of that case is an alarm."""
    run = make_pair(
        np.random.default_rng(2), cases=make_cases(3), launches=36, speedup=[1.0, 1.5, 1.0]
    )
    found = compare_with_itself(collect(run), 12, 0.01, 0.05)
    assert [noise.alarms.count for noise in found.cases] == [0, 3, 0]
    assert (found.family.count, found.fixed.count) == (3, 3)
    assert found.family.interval()[0] > 0.05


def test_smallest_detectable_change_is_found_as_often_as_promised() -> None:
    """Shifted by what 20 launches are said to see, about 80 % of fresh families see it."""
    rng = np.random.default_rng(3)
    deviation, family = 0.01, 8
    promised = np.log1p(
        detectable_changes(deviation * rng.standard_normal(400), family, 0.01, 0.05)[0.8][19]
    )
    run = make_pair(
        rng,
        cases=make_cases(family),
        launches=20 * 40,
        between=deviation / np.sqrt(2),
        within=0.0,
        speedup=float(np.exp(promised)),
    )
    found = compare_with_itself(collect(run), 20, 0.01, 0.05)
    assert 0.7 < found.alarms.value < 0.9


def test_more_launches_and_less_power_see_smaller_changes() -> None:
    """The smallest change falls with launches and rises with power; one launch sees nothing."""
    ratios = 0.01 * np.random.default_rng(4).standard_normal(30)
    found = detectable_changes(ratios, 16, 0.01, 0.05)
    assert np.isinf(found[0.8][0])
    assert len(found[0.8]) == MOST_LAUNCHES
    assert all(np.diff(found[0.8][np.isfinite(found[0.8])]) <= 0)
    assert (found[0.95] >= found[0.8]).all()
    assert (found[0.8] > 0.01).all()  # what is within the tolerance is never called different


@pytest.mark.slow
def test_command_measures_prints_and_keeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python candidate against itself: table, profile, and the same table from the file."""
    monkeypatch.setenv("FLASHBENCH_MACHINE", str(tmp_path / "machine.json"))
    monkeypatch.setenv("FLASHBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (tmp_path / "plain.py").write_text(
        "from torch.nn.functional import scaled_dot_product_attention\n"
        "def attention(q, k, v, **keywords):\n"
        "    return scaled_dot_product_attention(q, k, v, **keywords).clone()\n"
    )
    command = [sys.executable, "-m", "flashbench", "aa", "--comparisons", "2", "--launches", "4"]
    first = [*command, "--candidate", "plain:attention", "--dtype", "fp32"]
    first += ["--shape", "1,1,8,8", "--causal", "full", "--samples", "4", "--min-sample", "1ms"]
    first += ["--run-file", str(tmp_path / "aa.json"), "--format", "json"]
    done = subprocess.run([*first, "--save"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode in (Exit.PASS, Exit.REGRESSION), done.stderr
    table = json.loads(done.stdout)
    assert table["summary"]["family_alarms"]["trials"] == 2
    (kept,) = machine.load(tmp_path / "machine.json").noise
    assert (kept.device, kept.cases, kept.compared) == ("cpu", 1, 2)
    again = [*command, "--resume", str(tmp_path / "aa.json"), "--format", "json"]
    second = subprocess.run(again, cwd=tmp_path, capture_output=True, text=True)
    assert json.loads(second.stdout) == table
    missing = [*command, "--candidate", "nowhere:attention"]
    third = subprocess.run(missing, cwd=tmp_path, capture_output=True, text=True)
    assert third.returncode == Exit.NOT_MEASURED
    assert "no such package" in third.stderr
