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


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The working tree as git would clone it, without ignored files, results or tests."""
    target = tmp_path_factory.mktemp("pristine") / "clone"
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed += ["--", ":!results", ":!tests"]
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
def clone(pristine: Path, tmp_path: Path) -> Path:
    """A clone for one test."""
    return shutil.copytree(pristine, tmp_path / "clone", symlinks=True)


@pytest.fixture(scope="module")
def wheels(pristine: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By version of Python, the wheels that `make wheel` makes: CPU kernels for fp32 alone."""
    clone = shutil.copytree(pristine, tmp_path_factory.mktemp("wheels") / "clone", symlinks=True)
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
