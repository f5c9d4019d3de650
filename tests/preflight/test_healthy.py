"""What builds is no error on the source level, however the project is written."""

from collections.abc import Callable
from pathlib import Path

import pytest
from preflight.healthy import HEALTHY, called_in_bindings
from preflight.healthy_builds import HEALTHY_BUILDS, setup_in_a_folder
from preflight.healthy_conditions import CONDITIONS
from preflight.kernel_project import add_submodule, kernel_project
from preflight.planted_defines import HEALTHY_DEFINES
from preflight.planted_dispatch import HEALTHY_DISPATCH
from preflight.planted_includes import FOUND_ELSEWHERE
from preflight.planted_loads import HEALTHY_LOADS
from preflight.planted_make import HEALTHY_MAKE
from revisions.repository import Repository

from flashbench.preflight import run


@pytest.mark.parametrize(
    "write",
    [
        *HEALTHY,
        *HEALTHY_BUILDS,
        *CONDITIONS,
        *FOUND_ELSEWHERE,
        *HEALTHY_MAKE,
        *HEALTHY_LOADS,
        *HEALTHY_DEFINES,
        *HEALTHY_DISPATCH,
    ],
    ids=lambda write: write.__name__,
)
def test_what_builds_is_no_error(tmp_path: Path, write: Callable[[Repository], None]) -> None:
    """The text does not tell that anything is wrong, so nothing is said to be."""
    project = kernel_project(tmp_path / "flash")
    write(project)
    project.commit("Write it another way")
    report = run(project.root, "source")
    assert [(one.where, one.found) for one in (*report.errors, *report.warnings)] == []


def test_setup_above_which_the_sources_lie(tmp_path: Path) -> None:
    """A project in a folder of a repository lists sources beside that folder."""
    project = kernel_project(tmp_path / "flash")
    setup_in_a_folder(project)
    project.git("mv", "pyproject.toml", "python/pyproject.toml")
    project.git("mv", "flash", "python/flash")
    project.edit("python/pyproject.toml", 'sources = ["csrc"]\n', "")
    project.commit("Keep Python apart")
    assert [one.found for one in run(project.root / "python", "source").errors] == []


def test_unit_that_git_ignores(tmp_path: Path) -> None:
    """It lies there, so it is not called missing: a clean clone lacks it."""
    project = kernel_project(tmp_path / "flash")
    project.git("rm", "-q", "--cached", "csrc/combine.cpp")
    project.write(".gitignore", "combine.*\n")
    project.commit("Ignore too much")
    (finding,) = run(project.root, "source").errors
    assert "csrc/combine.cpp, which is on this machine alone: git ignores it" in finding.found


def test_unit_of_a_submodule(tmp_path: Path) -> None:
    """The files of a submodule are not the project's own."""
    project = kernel_project(tmp_path / "flash")
    add_submodule(project, "tiles.cpp", "int tiles;\n")
    unit = '"third_party/tiles/tiles.cpp"'
    project.edit("setup.py", '"csrc/combine.cpp"', f'"csrc/combine.cpp", {unit}')
    project.commit("Compile a submodule")
    assert [one.found for one in run(project.root, "source").errors] == []


def test_function_of_a_submodule(tmp_path: Path) -> None:
    """It is defined where the project's own units are not."""
    project = kernel_project(tmp_path / "flash")
    add_submodule(project, "tiles.cpp", "int tiles() { return 1; }\n")
    called_in_bindings(project, "int tiles();", "tiles()")
    project.commit("Call a submodule")
    assert [one.found for one in run(project.root, "source").errors] == []


def test_header_of_a_submodule(tmp_path: Path) -> None:
    """Git tracks it there, by whichever path it is included."""
    project = kernel_project(tmp_path / "flash")
    add_submodule(project, "tiles.h", "constexpr int kTiles = 1;\n")
    first = '#include "forward.h"'
    project.edit("csrc/combine.cpp", first, f'#include "../third_party/tiles/tiles.h"\n{first}')
    project.commit("Include a header of a submodule")
    assert [one.found for one in run(project.root, "source").errors] == []
