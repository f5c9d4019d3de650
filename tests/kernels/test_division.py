"""How the CUDA kernels divide keys among blocks of threads, checked where there is no GPU."""

import shutil
import subprocess
from pathlib import Path

import pytest

_SOURCES = Path(__file__).parent / "native"


# split: among the blocks of a few queries (decode); tail: the last tiles of a launch among all SMs.
@pytest.mark.parametrize("name", ["split", "tail"])
def test_divisions_cover_all_keys_and_add_up(name: str, tmp_path: Path) -> None:
    """Keys are divided evenly, each once, and the merged result equals the computed one."""
    compiler = shutil.which("c++") or shutil.which("g++")
    assert compiler is not None, "what builds the extension needs a C++ compiler"
    program = tmp_path / name
    command = [compiler, "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-o", str(program)]
    source = _SOURCES / f"check_{name}.cpp"
    subprocess.run([*command, str(source)], check=True, timeout=120)
    done = subprocess.run([program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
    assert f"{name} checked" in done.stdout
