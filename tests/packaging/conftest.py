"""The working tree as a clone of its own, and the wheels that are made from it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
# This Python, and the newest: where there is no ccache, each costs 18 CPU seconds.
VERSIONS = sorted({HERE, "3.13"})


def make_clone(target: Path) -> Path:
    """The working tree as git would clone it, without anything that is ignored."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True).stdout
    for name in filter(None, names.decode().split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    who = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
    for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-qm", "all"]):
        subprocess.run(["git", *words], cwd=target, check=True, capture_output=True)
    return target


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone for one test."""
    return make_clone(tmp_path / "clone")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By version of Python, the wheels that `make wheel` makes: CPU kernels for fp32 alone."""
    clone = make_clone(tmp_path_factory.mktemp("wheels") / "clone")
    command = [sys.executable, "scripts/build_wheels.py", "-o", "out", *VERSIONS]
    environment = os.environ | {"FLASHBENCH_CUDA": "OFF", "FLASHBENCH_DTYPES": "fp32"}
    done = subprocess.run(command, cwd=clone, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "MB; CPU fp32; CPU kernels only" in done.stdout
    tags = {version: f"cp{version.replace('.', '')}" for version in VERSIONS}
    return {
        version: wheel
        for version, tag in tags.items()
        for wheel in clone.glob(f"out/*-{tag}-{tag}-manylinux_*.whl")
    }
