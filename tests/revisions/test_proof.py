"""A watched call shows code that is not its revision's, wherever that came from."""

import ctypes
import importlib.metadata
import shutil
import subprocess
import sys
from pathlib import Path
from types import FunctionType, ModuleType

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from flashbench import operations
from flashbench.revisions import proof
from flashbench.revisions.isolated_imports import IsolatedModules
from flashbench.revisions.proof import Witness, _distributions

WAIT = "def wait():\n    return 1\n"


def import_roots(root: Path) -> tuple[IsolatedModules, IsolatedModules]:
    """Two import roots of a package `toy`."""
    for name in ("a", "b"):
        (root / name / "toy").mkdir(parents=True)
        (root / name / "toy" / "__init__.py").write_text(WAIT)
    return IsolatedModules(root / "a", "toy"), IsolatedModules(root / "b", "toy")


def compiled(file: Path) -> ModuleType:
    """A module of `WAIT`, as if it lay in this file."""
    module = ModuleType("elsewhere")
    code = compile(WAIT, str(file), "exec")
    FunctionType(code, vars(module))()
    return module


def test_names_share_a_distribution_as_python_says() -> None:
    """For every package that is installed here."""
    found, expected = _distributions(), importlib.metadata.packages_distributions()
    assert found.keys() == expected.keys()
    for name, others in (("torch", "functorch"), ("pytest", "_pytest"), ("scipy", "numpy")):
        shared = bool(set(expected[name]) & set(expected.get(others, ())))
        assert bool(found[name] & found.get(others, set())) == shared


def test_frames_of_another_revision(tmp_path: Path) -> None:
    """Another revision's function is seen, also after one of equal code from the revision."""
    mine, other = import_roots(tmp_path)
    witness = Witness(mine, [mine, other])
    own = compiled(mine.directory.resolve() / "toy" / "x.py").wait
    other_wait = compiled(other.directory.resolve() / "toy" / "x.py").wait
    assert witness.disproof(own) == ""
    assert witness.disproof(lambda: (own(), other_wait())) == "ran wait of another revision"
    # Code objects compare by what they do and their first line; the file counts for nothing.
    assert own.__code__ == other_wait.__code__


@pytest.mark.parametrize("name", ["attention-backward", "attention-forward-backward"])
def test_gradients_of_a_revision_of_flashbench(tmp_path: Path, name: str) -> None:
    """What calls a candidate and then its gradients is flashbench's, but not the revision's."""
    (tmp_path / "flashbench").mkdir()
    (tmp_path / "flashbench" / "__init__.py").write_text(WAIT)
    mine = IsolatedModules(tmp_path, "flashbench")
    operation = operations.named(name)
    case = operation.case(operation.preset("tiny")[0], "fp32", "cpu", {"mask": "full"})
    inputs = operation.inputs(case, torch.float32, torch.Generator())
    call = operation.bind(scaled_dot_product_attention, inputs)
    assert Witness(mine, [mine]).disproof(call) == ""


def library(directory: Path, name: str) -> ctypes.CDLL:
    """A library with a function `wait`, loaded from the directory."""
    (directory / "wait.c").write_text("int wait_(void) { return 1; }\n")
    command = ["cc", "-shared", "-fPIC", "wait.c", "-o", name]
    subprocess.run(command, cwd=directory, check=True)
    return ctypes.CDLL(str(directory / name))


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel does not say it")
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_native_code_of_another_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code in another revision's library is seen when it runs, and not when it is only loaded."""
    mine, other = import_roots(tmp_path)
    witness = Witness(mine, [mine, other])
    wait = library(other.directory.resolve(), "libproof_other.so").wait_
    wait()  # bound
    assert witness.disproof(lambda: None) == ""
    monkeypatch.setattr(proof, "_SETTLE_SECONDS", 0.0)  # a pause empties the TLB, mostly
    for _ in range(100):
        assert witness.disproof(wait) == "ran libproof_other.so of another revision"


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel does not say it")
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_library_in_the_place_of_the_revisions(tmp_path: Path) -> None:
    """A library of the same name from elsewhere is seen where the revision's is not loaded."""
    mine, other = import_roots(tmp_path)
    elsewhere = tmp_path.resolve() / "elsewhere"
    elsewhere.mkdir()
    library(elsewhere, "libproof_stands_in.so")
    witness = Witness(mine, [mine, other])
    assert witness.disproof(lambda: None) == ""
    shutil.copy(elsewhere / "libproof_stands_in.so", mine.directory)
    told = f"ran {elsewhere / 'libproof_stands_in.so'}, which is not the revision's"
    assert witness.disproof(lambda: None) == told
