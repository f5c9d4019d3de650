"""How the kernels divide their work and are chosen, checked without running them."""

import shutil
import subprocess
from pathlib import Path

import pytest

_SOURCES = Path(__file__).parent / "native"


# On CUDA, keys: among the blocks of a few queries (decode, split), and those of a launch's last
# tiles among all SMs (tail); heads, among sections; of gradients, a group's heads among blocks
# (parts). On CPUs, rows and keys among threads (work_list). The kernel and tile of a problem
# (choice), and the tile and division of a few queries (split_choice): within 5 % of the best one
# measured.
@pytest.mark.parametrize(
    "name", ["split", "split_choice", "tail", "parts", "work_list", "sections", "choice"]
)
def test_divisions_and_choices(name: str, tmp_path: Path) -> None:
    """Work is divided evenly, each key once a row; the kernel chosen is as fast as any measured."""
    compiler = shutil.which("c++") or shutil.which("g++")
    assert compiler is not None, "what builds the extension needs a C++ compiler"
    program = tmp_path / name
    command = [compiler, "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-o", str(program)]
    source = _SOURCES / f"check_{name}.cpp"
    subprocess.run([*command, str(source)], check=True, timeout=120)
    done = subprocess.run([program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
    assert f"{name} checked" in done.stdout
