"""The packages and builds of each `make` target, and their progress."""

import subprocess
import sys
from pathlib import Path

import environment
import progress
import pytest

GPU = any(Path("/dev").glob("nvidiactl"))


def _plan(clone: Path, *arguments: str) -> str:
    """What make would run in a fresh clone."""
    command = ["make", "-n", *arguments]
    done = subprocess.run(command, cwd=clone, capture_output=True, text=True, check=True)
    return done.stdout


def test_measuring_waits_for_nothing_but_what_it_needs(clone: Path) -> None:
    """`make bench` installs no tests and compiles CUDA where a GPU is, or if asked to."""
    plan = _plan(clone, "bench")
    assert "environment.py .venv build run gpu\n" in plan
    assert plan.count("environment.py") == 1
    assert f"FLASHBENCH_CUDA={'auto' if GPU else 'OFF'} " in plan
    assert "FLASHBENCH_CUDA=ON " in _plan(clone, "bench", "FLASHBENCH_CUDA=ON")


def test_testing_compiles_cuda_where_nvcc_is(clone: Path) -> None:
    """`make test` has the groups of the tests, and leaves CUDA to whether there is nvcc."""
    plan = _plan(clone, "test")
    assert "environment.py .venv test release oracles" in plan
    assert "FLASHBENCH_CUDA=auto " in plan
    assert "lint" not in plan


def test_every_group_of_the_makefile_is_one() -> None:
    """What a target installs stands in pyproject.toml; to measure, torch and no pytest."""
    names = [
        "build",
        "run",
        "gpu",
        "test",
        "release",
        "oracles",
        "slurm",
        "history",
        "browser",
        "lint",
    ]
    assert all(environment.requirements([name]) for name in names)
    bench = environment.requirements(["build", "run", "gpu"])
    assert any(text.startswith("torch") for text in bench)
    assert not any(text.startswith(("pytest", "arch", "playwright", "mypy")) for text in bench)
    release = environment.requirements(["build", "release"])
    assert not any(text.startswith("torch") for text in release)


def test_steps_are_shown_while_a_command_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines that name a step, and not the others."""
    monkeypatch.setattr(progress, "SECONDS", {True: 0.0, False: 0.0})
    words = "print('  [3/40] Building fp32.o'); print('noise'); print('Collecting torch>=2.5')"
    assert progress.run([sys.executable, "-c", words]) == 0
    assert capsys.readouterr().err == "  [3/40] Building fp32.o\n  Collecting torch>=2.5\n"


def test_a_command_that_fails_is_shown_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """All that it printed, on stderr, and its exit code."""
    words = "import sys; print('why'); sys.exit(3)"
    assert progress.run([sys.executable, "-c", words]) == 3
    assert capsys.readouterr().err == "why\n"
