"""`flashbench profile` on a GPU: with counters if ncu may read them, else with the reason."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

if not torch.cuda.is_available():
    pytest.skip("torch sees no CUDA device", allow_module_level=True)

from flashbench.profile import model
from flashbench.profile.floors import floors

CASE = "b1-h16-q2048-d64-bf16-full-cuda"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where one profile of SDPA's two backends was written."""
    place = tmp_path_factory.mktemp("profile")
    command = ["profile", CASE, "--candidate", "sdpa:flash", "--against", "sdpa:efficient"]
    done = subprocess.run(
        [sys.executable, "-m", "flashbench", *command, "-o", str(place / "p.json")],
        env={**os.environ, "FLASHBENCH_MACHINE": str(place / "machine.json")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    (place / "stdout").write_text(done.stdout)
    return place


def test_counters_or_the_reason(folder: Path) -> None:
    """Every kernel has the counters that the rules need, or the profile names the missing ones."""
    for subject in model.read(folder / "p.json").subjects:
        assert subject.status == "ok"
        assert subject.kernels
        if subject.without:
            assert "there is no ncu here" in subject.without or "may not" in subject.without
            continue
        assert (folder / subject.report).stat().st_size > 1000
        counters = subject.kernels[0].counters
        assert {"tensor", "dram", "l2", "xu", "occupancy", "waves", "duration"} <= counters.keys()
        # The counted kernels are those of the timed call.
        counted = sum(kernel.took for kernel in subject.kernels)
        assert 0.5 < counted / subject.times["gpu_warm"].median < 2


def test_no_time_is_below_its_floor(folder: Path) -> None:
    """A ceiling that a kernel beats would be none; 5 % are the clocks'."""
    profile = model.read(folder / "p.json")
    assert profile.ceilings is not None
    known = floors(profile.case, profile.ceilings, profile.metric)
    assert {floor.name for floor in known} == {"arithmetic", "bytes", "exponentials", "launch"}
    for subject in profile.subjects:
        assert known[0].seconds < 1.05 * subject.times["gpu_warm"].median


def test_what_is_printed(folder: Path) -> None:
    """A bottleneck each, what changed, the roofline and its picture."""
    printed = (folder / "stdout").read_text()
    assert printed.count(": bound by ") == 2
    assert "sdpa:flash against sdpa:efficient: " in printed
    assert printed.count("roofline: ") == 2
    drawn = (folder / "p.svg").read_text()
    for number, subject in enumerate(model.read(folder / "p.json").subjects):
        assert f'class="o{number}"' in drawn, "what has to be moved, an open mark"
        # A filled one stands in the legend, and one for what is moved, which needs ncu.
        assert drawn.count(f'class="s{number}"') == 2 - bool(subject.without)


def test_without_ncu_timing_tells(tmp_path: Path, folder: Path) -> None:
    """The kernels of a call with their times, by torch's profiler."""
    done = subprocess.run(
        [sys.executable, "-m", "flashbench", "profile", CASE, "--candidate", "sdpa:flash"],
        env={
            **os.environ,
            "FLASHBENCH_MACHINE": str(folder / "machine.json"),
            "FLASHBENCH_NCU": str(tmp_path / "none"),
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "no-counters: sdpa:flash: $FLASHBENCH_NCU: no program" in done.stdout
    assert "kernel: sdpa:flash: " in done.stdout
