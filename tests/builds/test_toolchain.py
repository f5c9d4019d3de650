"""What makes another build of equal sources."""

from pathlib import Path

import pytest

from flashbench.builds import toolchain
from flashbench.errors import NotMeasuredError


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


def test_nvcc_beside_path_is_another_toolchain(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A build may fail to find it there, so that a failure is tried again once it is on PATH."""
    program = tmp_path / "bin" / "nvcc"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho release 13.0\n")
    program.chmod(0o755)
    for name in ("CUDACXX", "FLASHBENCH_CUDA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert toolchain.describe()["nvcc"] == f"{program}: release 13.0"
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    assert toolchain.describe()["nvcc"] == "nvcc: release 13.0"


def test_compiler_that_hangs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is named within a limit, in one line."""
    program = tmp_path / "nvcc"
    program.write_text("#!/bin/sh\nexec sleep 30\n")
    program.chmod(0o755)
    monkeypatch.delenv("FLASHBENCH_CUDA", raising=False)
    monkeypatch.setenv("CUDACXX", str(program))
    monkeypatch.setattr(toolchain, "_SECONDS", 0.2)
    with pytest.raises(NotMeasuredError, match=r"nvcc --version did not answer in 0\.2 s"):
        toolchain.describe()


def test_missing_headers_of_python_are_another_toolchain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that failed without them is tried again once they are installed."""
    before = toolchain.describe()
    monkeypatch.setattr("sysconfig.get_paths", lambda: {"include": "/nowhere"})
    without = toolchain.describe()
    assert without == before | {"python headers": "missing"}
