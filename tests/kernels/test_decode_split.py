"""How the CUDA kernels for few queries divide keys, checked where there is no GPU."""

import shutil
import subprocess
from pathlib import Path

_SOURCE = Path(__file__).parent / "native" / "check_split.cpp"


def test_divisions_cover_all_keys_and_add_up(tmp_path: Path) -> None:
    """A division takes each key once, evenly, in clusters that exist, and merges to the whole."""
    compiler = shutil.which("c++") or shutil.which("g++")
    assert compiler is not None, "what builds the extension needs a C++ compiler"
    program = tmp_path / "check_split"
    command = [compiler, "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-o", str(program)]
    subprocess.run([*command, str(_SOURCE)], check=True, timeout=120)
    done = subprocess.run([program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
    assert "split checked" in done.stdout
