"""MKL chooses its vector-math kernels before a candidate is imported, however that comes about."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from measuring.test_process import Worker, setup
from pytest_plugin.runs import run_pytest

from flashbench.measuring.protocol import Ready
from flashbench.revisions.check import Checker

FILE = Path(__file__).with_name("needs_chosen_kernels.py")
IN_PYTEST = """
import torch
torch.set_default_dtype(torch.bfloat16)  # what MKL has no functions for

@pytest.mark.attention("1,1,8,32", dtype="fp32", device="cpu", candidates="mine:attention")
def test_it(attention):
    attention()
"""


@pytest.fixture(autouse=True, scope="module")
def _kept_where_it_is_looked_for() -> None:
    """Imports of the candidate fail in a process that has not chosen, so that these tests can."""
    if not torch.backends.mkl.is_available():
        pytest.skip("this torch has no MKL")
    alone = subprocess.run([sys.executable, FILE], stderr=subprocess.PIPE, text=True, check=False)
    assert "MKL has not chosen" in alone.stderr, (
        "it keeps its choice elsewhere: does it still race?"
    )


def test_before_a_worker_imports_candidates() -> None:
    """A launch's process is started as by a user."""
    with Worker(timeout=60) as worker:
        ready = worker.ask(setup("tests.measuring.needs_chosen_kernels:attention"))
        assert isinstance(ready, Ready)
        assert ready.failures == {}


@pytest.mark.slow
def test_before_a_revision_is_checked(tmp_path: Path) -> None:
    """The checks of built revisions fork from a process of their own."""
    shutil.copy(FILE, tmp_path / "kernel.py")
    with Checker(timeout=60) as checker:
        found, reason, _ = checker.loads(tmp_path, "kernel:attention", tmp_path / "log")
    assert (found, reason) == ("built", "")


@pytest.mark.slow
def test_before_pytest_imports_a_candidate(tmp_path: Path) -> None:
    """The plugin imports the marks' candidates itself."""
    shutil.copy(FILE, tmp_path / "mine.py")
    code, said, _ = run_pytest(tmp_path, IN_PYTEST, kernels="", fork=False)
    assert code == 0, said
