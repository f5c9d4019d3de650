"""compute-sanitizer finds nothing in the CUDA kernels."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

if not torch.cuda.is_available():
    pytest.skip("torch sees no CUDA device", allow_module_level=True)

from flashbench.kernels import torch_attention

if torch_attention._C.cuda_dtypes() != ["fp16", "bf16"]:
    pytest.skip("flashbench._C was built without both CUDA dtypes", allow_module_level=True)
SANITIZER = shutil.which("compute-sanitizer") or shutil.which(
    "compute-sanitizer", path="/usr/local/cuda/bin"
)
if SANITIZER is None:
    pytest.skip("compute-sanitizer is not installed", allow_module_level=True)


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "initcheck", "synccheck"])
def test_kernels_are_clean(tool: str) -> None:
    """Neither bad addresses, races, uninitialised reads nor misused barriers."""
    assert SANITIZER is not None
    done = subprocess.run(
        [
            SANITIZER,
            f"--tool={tool}",
            "--error-exitcode=9",
            "--kernel-regex=kns=flashbench",
            "--target-processes=all",
            sys.executable,
            str(Path(__file__).with_name("sanitized_cases.py")),
        ],
        capture_output=True,
        text=True,
        timeout=280,
        # Every tensor in an allocation of its own, so that reading past one is seen.
        env={**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
    )
    log = done.stdout + done.stderr
    if "Device not supported" in log:
        pytest.skip("compute-sanitizer does not support this machine's driver")
    assert done.returncode == 0, log[-4000:]
    assert "done" in done.stdout
    assert "0 errors" in log or "0 hazards" in log, log[-4000:]
