"""Projects on a GPU: libraries and kernels that compile when they run, and layouts."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from revisions.repository import Repository

from flashbench import runfile
from flashbench.callables import LAYOUTS
from flashbench.fates import Fate, fate_of

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")

ROOT = Path(__file__).parents[2]
FEW = ["--launches", "2", "--samples", "2", "--min-sample", "0.1ms"]
BUILT = 'ctypes.CDLL(str(Path(__file__).with_name("librms_norm.so")))'
LOAD = "from torch.utils.cpp_extension import load"
COMPILED = """ctypes.CDLL(
    load("rms", [str(Path(__file__).with_name("rms_norm.cu"))], is_python_module=False)
)"""


def example(name: str, tmp_path: Path) -> Repository:
    """A copy of an example in a git repository."""
    found = Repository(tmp_path / name)
    shutil.copytree(ROOT / "examples" / name, found.root, dirs_exist_ok=True)
    return found


def flashbench(words: list[str], place: Path, tmp_path: Path, *candidates: str) -> None:
    """Run a command; its candidates are right and measured, whatever the verdict."""
    done = subprocess.run(
        [sys.executable, "-m", "flashbench", *words, "--device", "cuda", *FEW],
        cwd=place,
        env=os.environ
        | {
            "FLASHBENCH_CACHE": str(tmp_path / "cache"),
            "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode in (0, 1, 3), done.stdout + done.stderr
    run = runfile.read(place / "run.json")
    assert [fate_of(run, one).fate for one in candidates] == [Fate.MEASURED] * len(candidates)


def compared(project: Repository, tmp_path: Path) -> None:
    words = ["compare", "HEAD~1", "HEAD", "--shape", "rows=512,dim=1024", "--run-file", "run.json"]
    flashbench(words, project.root, tmp_path, "A", "B")


def folders(tmp_path: Path, tool: str, suffix: str) -> set[Path]:
    """Folders of revisions in which a tool has compiled something."""
    found = (tmp_path / "cache").rglob(f"*{suffix}")
    return {path.parents[2] for path in found if path.parents[1].name == tool}


def test_a_library_compiled_at_import(tmp_path: Path) -> None:
    """torch.utils.cpp_extension.load compiles each revision's .cu once, before the launches."""
    project = example("cuda_kernel", tmp_path)
    project.edit("norms.py", BUILT, COMPILED)
    project.edit("norms.py", "from torch import", f"{LOAD}\nfrom torch import")
    settings = (project.root / "pyproject.toml").read_text().splitlines()
    lines = ["build = []" if one.startswith("build =") else one for one in settings]
    project.write("pyproject.toml", "\n".join([*lines, ""]))
    project.commit("256 threads")
    project.edit("rms_norm.cu", "kThreads = 256", "kThreads = 32")
    project.commit("32 threads")
    compared(project, tmp_path)
    assert len(folders(tmp_path, "torch_extensions", ".so")) == 2


def test_a_kernel_compiled_at_its_first_call(tmp_path: Path) -> None:
    """Triton compiles into a folder of each revision."""
    project = example("triton_softmax", tmp_path)
    project.commit("As it is")
    project.edit("softmaxes.py", "tl.exp(", "1.0 * tl.exp(")
    project.commit("A product more")
    compared(project, tmp_path)
    assert len(folders(tmp_path, "triton", ".cubin")) == 2


@pytest.mark.parametrize("layout", LAYOUTS)
def test_inputs_of_each_layout(layout: str, tmp_path: Path) -> None:
    """Views are right and timed as they are; SDPA takes the same."""
    words = ["run", "--candidate", "flashbench", "--layout", layout, "--dtype", "bf16"]
    words += ["--shape", "2,4,256,64", "-o", "run.json"]
    flashbench(words, tmp_path, tmp_path, "flashbench")
