"""Two revisions of a project compared on a GPU, in one process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from revisions.repository import Repository
from revisions.toys import SETTINGS

from flashbench import runfile
from flashbench.errors import Exit

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")

KERNEL = """\
import torch.nn.functional as F

TIMES = 1


def attention(q, k, v, *, is_causal=False, enable_gqa=False):
    for _ in range(TIMES):
        out = F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
    return out
"""
CASES = ["--device", "cuda", "--dtype", "bf16", "--causal", "full", "--shape", "1,2,128,64"]
FEW = ["--metric", "gpu_warm", "--launches", "3", "--samples", "4"]


def test_revisions_share_a_process(tmp_path: Path) -> None:
    """What the clocks of a GPU leave behind is not taken for a revision's doing."""
    project = Repository(tmp_path / "toy")
    project.write("pyproject.toml", SETTINGS.format(build="[]"))
    project.write("toy.py", KERNEL)
    project.commit("Call it once")
    project.edit("toy.py", "TIMES = 1", "TIMES = 2")
    project.commit("Call it twice")
    file = tmp_path / "run.json"
    shared = ["--processes", "shared", "--run-file", str(file)]
    done = subprocess.run(
        [sys.executable, "-m", "flashbench", "compare", "HEAD~1", "HEAD", *CASES, *FEW, *shared],
        cwd=project.root,
        env=os.environ
        | {
            "FLASHBENCH_CACHE": str(tmp_path / "cache"),
            "FLASHBENCH_MACHINE": str(tmp_path / "machine.json"),
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *sys.path]),
        },
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode in (Exit.REGRESSION, Exit.UNDECIDED), done.stdout + done.stderr
    run = runfile.read(file)
    assert run.settings.processes == "shared"
    assert len(run.launches) == 3
