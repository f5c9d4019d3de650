"""Real runs of pytest with the plugin, for the tests of the pytest plugin."""

import json
import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import forks

ROOT = Path(__file__).parents[2]
KERNELS = """
import torch
from torch.nn.functional import scaled_dot_product_attention as sdpa

def good(q, k, v, **keywords):
    return sdpa(q, k, v, **keywords)

def wrong(q, k, v, **keywords):
    return 1.1 * sdpa(q, k, v, **keywords)

def refuses(q, k, v, **keywords):
    raise NotImplementedError("fp8 only")

def breaks(q, k, v, **keywords):
    raise RuntimeError("out of luck")

_kept = None
def cached(q, k, v, **keywords):
    global _kept
    _kept = sdpa(q, k, v, **keywords) if _kept is None else _kept
    return _kept.clone()

def norm(x, weight, eps):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)).to(x.dtype) * weight

def no_norm(x, weight, eps):
    return torch.zeros_like(x)

def softmax(x):
    return x.softmax(-1)
"""


# pytest-benchmark measures nothing where it believes itself in a worker of xdist.
PYTEST = """
import os, sys
for name in [name for name in os.environ if "XDIST" in name]:
    del os.environ[name]
sys.path.insert(0, os.getcwd())
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


def run_pytest(folder, test, *options, kernels=KERNELS, fork=True):
    """Run the text of a test file; (exit code, what it said, the JSON file or None). fork: of a
    process that has imported torch."""
    (folder / "test_it.py").write_text("import pytest, kernels\n" + test)
    (folder / "kernels.py").write_text(kernels)
    installed = any(e.name == "flashbench" for e in entry_points(group="pytest11"))
    plugin = [] if installed else ["-p", "flashbench.pytest_plugin"]
    out = folder / "out.json"
    arguments = ["-q", "-p", "no:cacheprovider", *plugin, *options]
    if "no:benchmark" not in options:
        arguments.append(f"--benchmark-json={out}")
    environment = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    if fork:
        process = forks.start(arguments, folder, environment, script=PYTEST)
        said = "".join(process.communicate())
        code = process.wait()
    else:
        done = subprocess.run(
            [sys.executable, "-c", PYTEST, *arguments],
            cwd=folder,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        code, said = done.returncode, done.stdout + done.stderr
    written = json.loads(out.read_text()) if out.exists() and out.stat().st_size else None
    return code, said, written
