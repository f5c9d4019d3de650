"""What makes another build of equal sources."""

import pytest

from flashbench.builds import toolchain


@pytest.mark.parametrize(
    "name",
    [
        "CXXFLAGS",
        "CMAKE_BUILD_TYPE",
        "CMAKE_PREFIX_PATH",
        "CMAKE_TOOLCHAIN_FILE",
        "CUDAARCHS",
        "CUDAHOSTCXX",
        "NVCC_APPEND_FLAGS",
        "NVCC_PREPEND_FLAGS",
        "TORCH_CUDA_ARCH_LIST",
    ],
)
def test_settings_that_change_a_library_are_told(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A variable that a compiler, CMake or torch reads is part of the toolchain while it is set."""
    monkeypatch.delenv(name, raising=False)
    before = toolchain.describe()
    monkeypatch.setenv(name, "another")
    assert toolchain.describe() == before | {name: "another"}


@pytest.mark.parametrize("name", ["FLASHBENCH_JOBS", "CUDA_VISIBLE_DEVICES"])
def test_settings_that_change_no_library_are_not_told(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The number of compilers, and the GPU of a worker, make no other build."""
    monkeypatch.delenv(name, raising=False)
    before = toolchain.describe()
    monkeypatch.setenv(name, "1")
    assert toolchain.describe() == before
