"""Real runs of pytest with the plugin, for the tests of the pytest plugin."""

import json
import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

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
"""


def run_pytest(folder, test, *options, kernels=KERNELS):
    """Run the text of a test file; (exit code, stdout, the JSON file or None)."""
    (folder / "test_it.py").write_text("import pytest, kernels\n" + test)
    (folder / "kernels.py").write_text(kernels)
    installed = any(e.name == "flashbench" for e in entry_points(group="pytest11"))
    plugin = [] if installed else ["-p", "flashbench.pytest_plugin"]
    out = folder / "out.json"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin, *options]
    if "no:benchmark" not in options:
        command.append(f"--benchmark-json={out}")
    # pytest-benchmark measures nothing where it believes itself in a worker of xdist.
    environment = {name: x for name, x in os.environ.items() if "XDIST" not in name}
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    written = json.loads(out.read_text()) if out.exists() and out.stat().st_size else None
    return done.returncode, done.stdout + done.stderr, written
