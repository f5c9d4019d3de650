"""What builds is no error on the source level, however the project is written."""

from collections.abc import Callable
from pathlib import Path

import pytest
from preflight.kernel_project import kernel_project
from revisions.repository import Repository

from flashbench.preflight import run


def instantiated_by_a_macro(project: Repository) -> None:
    """Of several lines, the name not on the first."""
    for type_name in ("Half", "BFloat16"):
        project.edit(
            "csrc/forward.cu",
            f"template void launch<at::{type_name}, 64>"
            f"(const at::{type_name}*, at::{type_name}*, int);\n",
            "",
        )
    project.write(
        "csrc/forward.cu",
        (project.root / "csrc/forward.cu").read_text()
        + "#define INSTANTIATE(T) \\\n  template void flash::launch<T, 64>( \\\n"
        "      const T*, T*, int);\nINSTANTIATE(at::Half)\nINSTANTIATE(at::BFloat16)\n",
    )


def alias_of_a_type(project: Repository) -> None:
    project.edit("csrc/config.h", "constexpr int", "using real_t = at::BFloat16;\nconstexpr int")
    project.edit("csrc/bindings.cpp", "launch<c10::BFloat16, 64>", "launch<real_t, 64>")


def constant_as_argument(project: Repository) -> None:
    project.edit("csrc/config.h", "constexpr int", "constexpr int kTile = 64;\nconstexpr int")
    project.edit("csrc/bindings.cpp", "launch<c10::BFloat16, 64>", "launch<c10::BFloat16, kTile>")


def instantiated_by_a_constant(project: Repository) -> None:
    project.edit("csrc/config.h", "constexpr int", "constexpr int kTile = 64;\nconstexpr int")
    project.edit("csrc/forward.cu", "launch<at::BFloat16, 64>", "launch<at::BFloat16, kTile>")


def arguments_deduced(project: Repository) -> None:
    for text in ("launch<at::Half, 64>", "launch<at::BFloat16, 64>"):
        project.edit("csrc/forward.cu", f"template void {text}", "template void launch")


HEALTHY: list[Callable[[Repository], None]] = [
    instantiated_by_a_macro,
    alias_of_a_type,
    constant_as_argument,
    instantiated_by_a_constant,
    arguments_deduced,
]


@pytest.mark.parametrize("write", HEALTHY, ids=lambda write: write.__name__)
def test_what_builds_is_no_error(tmp_path: Path, write: Callable[[Repository], None]) -> None:
    """The text does not tell that anything is wrong, so nothing is said to be."""
    project = kernel_project(tmp_path / "flash")
    write(project)
    project.commit("Write it another way")
    assert [(one.where, one.found) for one in run(project.root, "source").errors] == []
