"""Lists of architectures by their names, and which setting of a project has one."""

from pathlib import Path

import pytest
from preflight.kernel_project import kernel_project

from flashbench.preflight.architectures import covers, holds, setting_of
from flashbench.preflight.source.tree import read_tree


@pytest.mark.parametrize(
    ("arch", "chip", "runs"),
    [
        ("80", 90, True),
        ("80-real", 90, False),
        ("80-real", 86, True),
        ("86-real", 80, False),
        ("90a-real", 90, True),
        ("90a-real", 100, False),
        ("90-virtual", 100, True),
        ("100f", 103, True),
        ("100f", 120, False),
        ("sm_80", 89, True),
        ("nonsense", 90, False),
    ],
)
def test_what_runs_on_a_chip(arch: str, chip: int, runs: bool) -> None:
    """Machine code runs on later chips of its major version, PTX on all later ones."""
    assert covers(arch, chip) is runs


@pytest.mark.parametrize(
    ("value", "chip", "held"),
    [
        ("Hopper", 90, True),
        ("Ampere", 90, True),  # its last has PTX
        ("Ampere+Tegra", 90, False),
        ("Ada;Hopper", 86, False),
        ("Volta Turing", 80, True),
        ("Blackwell", 90, False),
        ("7.5;8.6", 86, True),
        ("7.5;8.6", 90, False),
        ("9.0a", 90, True),
        ("9.0a", 100, False),
        ("native", 90, True),
        ("Common", 90, None),
        ("All", 90, None),
        ("90", 90, None),  # torch refuses it
        ("Common;9.0", 90, True),
    ],
)
def test_names_of_torch(value: str, chip: int, held: bool | None) -> None:
    """Those of torch.utils.cpp_extension; of others nothing is said."""
    assert holds("TORCH_CUDA_ARCH_LIST", value, chip) is held


@pytest.mark.parametrize(
    ("value", "chip", "held"),
    [("Common", 90, True), ("All", 89, True), ("Auto", 120, True), ("Common", 70, None)],
)
def test_names_of_torch_in_cmake(value: str, chip: int, held: bool | None) -> None:
    """Its CMake modules know lists of all chips, which no longer have the oldest."""
    assert holds("TORCH_CUDA_ARCH_LIST", value, chip, by_cmake=True) is held


@pytest.mark.parametrize(
    ("value", "held"),
    [
        ("native", True),
        ("all", True),
        ("all-major", True),
        ("80-real", False),
        ("80-real;90a-real", True),
        ("OFF", None),
    ],
)
def test_names_of_cmake(value: str, held: bool | None) -> None:
    """`all` has PTX of the newest chip; `native` is this machine's."""
    assert holds("CUDAARCHS", value, 90) is held


@pytest.mark.parametrize(
    ("file", "text", "fix"),
    [
        ("setup.py", "from torch.utils.cpp_extension import CUDAExtension", "TORCH_CUDA_ARCH_LIST"),
        ("setup.py", "\nflags = ['-gencode', 'arch=compute_80,code=sm_80']", "+2 setup.py"),
        ("CMakeLists.txt", "set(CMAKE_CUDA_ARCHITECTURES 80)", "CMAKE_CUDA_ARCHITECTURES"),
        ("CMakeLists.txt", "project(kernels CUDA)", "CMAKE_CUDA_ARCHITECTURES"),
        (
            "Makefile",
            "NVCCFLAGS = -arch=sm_80",
            "code=sm_90 to nvcc's flags",
        ),
    ],
)
def test_setting_of_a_project(tmp_path: Path, file: str, text: str, fix: str) -> None:
    """The one that its own build file reads; ours in no other project."""
    (tmp_path / file).write_text(text)
    said = setting_of(read_tree(tmp_path), ours=False, build="make").cover(90)
    assert fix in said
    assert "FLASHBENCH" not in said
    assert "FLASHBENCH_CUDA_ARCHS=90-real" in setting_of(read_tree(tmp_path), ours=True).cover(90)


def test_setting_with_the_command_that_builds(tmp_path: Path) -> None:
    """One line that can be copied."""
    tree = read_tree(kernel_project(tmp_path / "flash").root)
    said = setting_of(tree, ours=False, build="python setup.py build_ext --inplace").cover(120)
    assert said == "TORCH_CUDA_ARCH_LIST=12.0 python setup.py build_ext --inplace"
