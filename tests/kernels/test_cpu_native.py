"""The CPU kernels without Python: the check in native/, compiled for Arm and run by an emulator."""

import shutil
import subprocess
from pathlib import Path

import pytest

_SOURCE = Path(__file__).parent / "native"


def _need(*tools: str) -> None:
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"no emulator of Arm: not installed are {', '.join(missing)}")


def _run(*command: str | Path) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_neon_is_right_under_qemu(tmp_path: Path) -> None:
    """The NEON units, cross-compiled, pass the native check on an emulated AArch64."""
    _need("cmake", "ninja", "aarch64-linux-gnu-g++", "qemu-aarch64")
    _run(
        *("cmake", "-S", _SOURCE, "-B", tmp_path, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"),
        *("-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64"),
        *("-DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++", "-DCMAKE_EXE_LINKER_FLAGS=-static"),
    )
    _run("cmake", "--build", tmp_path)
    assert "neon checked" in _run("qemu-aarch64", tmp_path / "check_kernels", "brief")
