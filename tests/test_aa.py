"""`flashbench aa`: comparisons of a build with itself."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from synthetic import make_cases, make_pair

from flashbench import machine
from flashbench.aa import (
    MOST_LAUNCHES,
    compare_with_itself,
    detectable_changes,
)
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


def found_by(launches: int, deviation: float, family: int, change: float, seed: int) -> float:
    """Share of cases, of fresh families whose cases all change, that `compare` calls different."""
    run = make_pair(
        np.random.default_rng(seed),
        cases=make_cases(family),
        launches=launches * (320 // family),
        samples=2,
        between=deviation / np.sqrt(2),
        within=0.0,
        speedup=1 + change,
    )
    return compare_with_itself(collect(run), launches, 0.01, 0.05).alarms.value


@pytest.mark.parametrize(
    ("deviation", "launches", "family"),
    [(0.01, 20, 8), (0.01, 20, 64), (0.001, 8, 64), (0.001, 13, 64), (0.0005, 12, 64)],
)
def test_what_is_promised_is_found(deviation: float, launches: int, family: int) -> None:
    """A change promised at 80 %, and any larger one, is found in 80 % of fresh families, about."""
    ratios = deviation * np.random.default_rng(3).standard_normal(400)
    promised = detectable_changes(ratios, family, 0.01, 0.05)[0.8][launches - 1]
    if np.isinf(promised):
        # So close together, launches wait for the signs: no large change is found either.
        assert found_by(launches, deviation, family, 0.05, 5) < 0.5
        return
    for larger in (1, 2, 10):
        assert found_by(launches, deviation, family, larger * promised, 5) > 0.75
    if deviation == 0.01:  # and it is not a promise that is always kept
        assert found_by(launches, deviation, family, 0.8 * promised, 5) < 0.8


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
