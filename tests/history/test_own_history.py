"""This repository's own history in results/history can be read and published completely."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "results" / "history"
RESULTS = str((KEPT / "asv").relative_to(ROOT))


def listed(name: str) -> list[str]:
    lines = (KEPT / name).read_text().splitlines()
    return [line.split()[0] for line in lines if not line.startswith("#")]


LISTED, LISTED_CPU = listed("commits.txt"), listed("cpu-commits.txt")
NEVER_BUILT = LISTED[:3]
# What the commits say of themselves, and where the history of the H200, or of a CPU, has it.
CHANGES = {
    ("b2-h16-q2048-d128-bf16-full-cuda", "gpu_warm", "c1f5d804"),  # Hopper kernels
    ("b1-h8-q512-d64-bf16-full-cuda", "gpu_warm", "521cfb34"),  # keys split among warps
    ("b1-h8-q512-d64-bf16-full-cuda", "wall", "74f714af"),  # one call from Python
    ("b4-h16-q1024-d128-bf16-causal-cuda", "gpu_warm", "136c8347"),  # a stream of key blocks
    ("b1-h8-q512-d64-bf16-causal-cuda", "gpu_warm", "2fc78b25"),  # kernels for short sequences
    ("b1-h8-q128-d64-fp32-full-cpu", "wall", "74f714af"),  # one call from Python
    ("b1-h8-q512-d64-bf16-full-cpu", "wall", "e1337626"),  # AMX
    ("b1-h8-q128-d64-fp32-causal-cpu", "wall", "9b951e71"),  # less work in short problems
}


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """With an empty build cache: everything comes from the repository."""
    found = subprocess.run(
        ["git", "-C", str(ROOT), "cat-file", "--batch-check"],
        input="\n".join(LISTED + LISTED_CPU),
        capture_output=True,
        text=True,
    )
    if found.returncode or "missing" in found.stdout:
        pytest.skip("no clone with the whole history of this repository")
    cache = tmp_path_factory.mktemp("cache")
    return os.environ | {"PYTHONPATH": str(ROOT), "FLASHBENCH_CACHE": str(cache)}


def flashbench(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "flashbench", *arguments, "--results", RESULTS]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done


def test_published_whole(environment: dict[str, str], tmp_path: Path) -> None:
    """Every listed commit has a page with its numbers, or with the reason why it has none, and
    nothing is passed over."""
    done = flashbench(environment, "publish", "-o", str(tmp_path / "site"))
    (line,) = done.stderr.splitlines()
    assert "series" in line
    for commit in {*LISTED, *LISTED_CPU}:
        (page,) = (tmp_path / "site" / "commits").glob(f"{commit}*.html")
        text = page.read_text()
        assert ("no setup.py" in text) == (commit in NEVER_BUILT)
        measured = {"cuda": commit in set(LISTED) - set(NEVER_BUILT), "cpu": commit in LISTED_CPU}
        for device, there in measured.items():
            assert (f"b1-h8-q512-d64-bf16-full-{device}" in text) == there


def test_changes_are_at_the_commits_that_made_them(environment: dict[str, str]) -> None:
    """What commits of this repository changed for certain is found, and named after them."""
    done = flashbench(environment, "history", "--format", "json", "--exit-zero")
    rows = json.loads(done.stdout)["rows"]
    assert {(row["case"], row["metric"], row["commit"][:8]) for row in rows} >= CHANGES


def test_no_paths_of_machines() -> None:
    """What is kept tells of commits and tools, not of where they lay."""
    for path in KEPT.rglob("*.json"):
        assert '"/' not in path.read_text(), path
