"""The architectures in a library are read from its own headers, without CUDA's tools."""

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from flashbench.preflight.build.fatbin import archs_of, has_device_code
from flashbench.preflight.finding import CannotCheck


def _entry(kind: int, arch: int, flags: int = 0x11, code: int = 8) -> bytes:
    header = struct.pack("<HHIQ12xI8xQ16x", kind, 257, 64, code, arch, flags)
    return header + bytes(code)


def _library(folder: Path, *containers: bytes, magic: int = 0xBA55ED50) -> Path:
    path = folder / "_C.so"
    held = (struct.pack("<IHHQ", magic, 1, 16, len(one)) + one for one in containers)
    path.write_bytes(b"\x7fELF" + b"".join(held) + b".nv_fatbin\0")
    return path


def test_entries_of_all_containers(tmp_path: Path) -> None:
    """Machine code and PTX, of one architecture alone and of a family; other kinds are no code."""
    first = _entry(2, 80) + _entry(2, 90, 0x100011) + _entry(1, 90, 0x8011)
    second = _entry(2, 100, 0x1200011) + _entry(8, 120)
    found = archs_of(_library(tmp_path, first, second))
    assert found == {"80-real", "90a-real", "90-virtual", "100f-real"}


def test_library_without_code_for_a_gpu(tmp_path: Path) -> None:
    """It has none, which is known; so has an empty file."""
    library = tmp_path / "_C.so"
    for content in (b"", b"\x7fELF .text"):
        library.write_bytes(content)
        assert (has_device_code(library), archs_of(library)) == (False, set())


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data.replace(struct.pack("<I", 0xBA55ED50), b"1234"),
        lambda data: data[:30] + b".nv_fatbin",
        lambda data: data.replace(struct.pack("<I", 64), bytes(4)),  # an entry of no size
        lambda data: data.replace(struct.pack("<Q", 72), b"\xff" * 8)[:24] + b".nv_fatbin",
    ],
)
def test_headers_that_are_not_understood(tmp_path: Path, damage: object) -> None:
    """It is said that they are not: never "no code", and no loop without an end."""
    library = _library(tmp_path, _entry(2, 80))
    assert callable(damage)
    library.write_bytes(damage(library.read_bytes()))
    with pytest.raises(CannotCheck, match=r"_C\.so has an unknown format"):
        archs_of(library)


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc here")
@pytest.mark.parametrize("mode", ["size", "none"])
def test_what_nvcc_writes(tmp_path: Path, mode: str) -> None:
    """Compressed or not, by the compiler that is here."""
    unit, binary = tmp_path / "k.cu", tmp_path / "k.fatbin"
    unit.write_text("__global__ void scale(float* x) { x[threadIdx.x] *= 2; }\n")
    wanted = ("compute_80,code=sm_80", "compute_90a,code=sm_90a", "compute_90,code=compute_90")
    command = ["nvcc", "-fatbin", "-Xfatbin", f"-compress-all,--compress-mode={mode}", str(unit)]
    command += ["-o", str(binary), *(f"-gencode=arch={one}" for one in wanted)]
    subprocess.run(command, check=True, capture_output=True)
    with binary.open("ab") as file:
        file.write(b".nv_fatbin")  # the name of its section in a library
    assert archs_of(binary) == {"80-real", "90a-real", "90-virtual"}
