"""Units that a commit removed, and what still calls their functions."""

from pathlib import Path

import pytest
from preflight.kernel_project import kernel_project
from revisions.repository import Repository

from flashbench.preflight import Finding, run

OPTIONAL = """
#ifdef FLASH_BF16
#define BF16(name) name
#else
#define BF16(name) nullptr
#endif
#define FP16(name) name
using Combine = void (*)(const float*, float*, int);
constexpr Combine kCombine[] = {FP16(flash::combine), BF16(flash::combine_bf16)};
"""


@pytest.fixture
def project(tmp_path: Path) -> Repository:
    return kernel_project(tmp_path / "flash")


def _remove(project: Repository, unit: str) -> None:
    """Take a unit out of git, and out of setup.py if it lists the unit."""
    project.git("rm", "-q", unit)
    setup = (project.root / "setup.py").read_text()
    project.write("setup.py", setup.replace(f', "{unit}"', ""))
    project.commit("Remove a unit")


def _errors(project: Repository) -> list[Finding]:
    return run(project.root, "source").errors


def test_function_that_only_an_empty_macro_takes(project: Repository) -> None:
    """A use that a macro turns into nullptr is no error beside uses in other macros, and is one
    once the same macro takes a function that the build defines."""
    declared = "void combine(const float* partial, float* out, int count);"
    project.edit("csrc/forward.h", declared, f"{declared}\n{declared.replace('e(', 'e_bf16(')}")
    project.write("csrc/bf16.cu", '#include "forward.h"\nvoid flash::combine_bf16(const float*, '
                  "float*, int) {}\n")  # fmt: skip
    project.edit("setup.py", '"csrc/combine.cpp"', '"csrc/combine.cpp", "csrc/bf16.cu"')
    project.edit("csrc/bindings.cpp", '#include "forward.h"', f'#include "forward.h"{OPTIONAL}')
    project.commit("Combine in bf16, too")
    assert _errors(project) == []
    _remove(project, "csrc/bf16.cu")
    assert _errors(project) == []
    project.edit("csrc/bindings.cpp", "FP16(flash", "BF16(flash")
    project.commit("Take both by one macro")
    (finding,) = _errors(project)
    assert "csrc/bf16.cu defined it, which was removed" in finding.found


def test_namesake_of_a_function_whose_unit_was_removed(project: Repository) -> None:
    """The removed unit is named, not a function of another namespace."""
    project.write(
        "csrc/forward.cu",
        (project.root / "csrc/forward.cu").read_text()
        + "namespace other {\nvoid combine(const float*, float*, int) {}\n}\n",
    )
    project.commit("A namesake")
    _remove(project, "csrc/combine.cpp")
    (finding,) = _errors(project)
    assert "csrc/combine.cpp defined it, which was removed" in finding.found
    assert finding.fix.startswith("git checkout ")
