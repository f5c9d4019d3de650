"""Headers are looked for where a compiler looks; each case fails with the name looked for alone."""

from collections.abc import Callable
from pathlib import Path

import pytest
from preflight.kernel_project import add_submodule, kernel_project
from preflight.planted_builds import by_cmake
from revisions.repository import Repository

from flashbench.preflight import Finding, run

TARGET = """\
project(tiles)
find_package(fmt REQUIRED)
add_library(tiles SHARED csrc/forward.cu csrc/combine.cpp)
target_include_directories(tiles PUBLIC include)
pybind11_add_module(_C csrc/bindings.cpp)
target_link_libraries(_C PRIVATE tiles fmt::fmt)
"""


def _found(project: Repository) -> list[Finding]:
    report = run(project.root, "source")
    assert {done.skipped for done in report.checks} == {""}
    return [*report.errors, *report.warnings]


@pytest.fixture
def project(tmp_path: Path) -> Repository:
    return kernel_project(tmp_path / "flash")


def _include(project: Repository, line: str) -> None:
    project.edit("csrc/forward.cu", '#include "forward.h"', f'#include "forward.h"\n{line}')
    project.commit("Include")


def namesake_elsewhere(project: Repository) -> str:
    for folder in ("csrc/sm80", "csrc/sm90"):
        project.write(f"{folder}/softmax.h", "#pragma once\n")
        project.write(f"{folder}/kernel.h", '#pragma once\n#include "softmax.h"\n')
    _include(project, '#include "sm80/kernel.h"\n#include "sm90/kernel.h"')
    project.git("rm", "-q", "csrc/sm80/softmax.h")
    project.commit("Remove a header whose name another folder has")
    return "softmax.h"


def namesake_in_a_compiled_folder(project: Repository) -> str:
    project.write("tests/test_sm80.py", 'include_dirs = ["csrc/sm80"]\n')
    project.edit("setup.py", "sources=", 'include_dirs=["csrc"], sources=')
    project.edit("setup.py", "setup(", 'FOLDERS = ["sm80"]' + "\n" * 300 + "setup(")
    project.write("csrc/sm80/tile.h", "#pragma once\n")
    project.write("csrc/sm80/kernel.h", '#pragma once\n#include "tile.h"\n')
    project.write("csrc/sm90/tile.h", "#pragma once\n")
    project.write("csrc/sm90/kernel.h", '#pragma once\n#include "tile.h"\n')
    _include(project, '#include "sm80/kernel.h"\n#include "sm90/kernel.h"')
    project.git("rm", "-q", "csrc/sm90/tile.h")
    project.commit("Remove a header whose name a folder of units has")
    return "tile.h"


def parent_of_another_folder(project: Repository) -> str:
    project.write("csrc/sm90/detail/copy.cuh", "#pragma once\n")
    _include(project, '#include "../detail/copy.cuh"')
    return "../detail/copy.cuh"


def named_by_a_test(project: Repository) -> str:
    project.write("tests/test_tile.py", 'open("tile.h").read()\nprint("x > 1")\n')
    _include(project, '#include "tile.h"')
    return "tile.h"


def named_near_a_write(project: Repository) -> str:
    project.write("scripts/report.py", 'open("report.md", "w").write("")\nHEADER = "tile.h"\n')
    _include(project, '#include "tile.h"')
    return "tile.h"


def named_like_cuda(project: Repository) -> str:
    _include(project, '#include "cuda_utils.h"')
    return "cuda_utils.h"


def named_like_torch(project: Repository) -> str:
    _include(project, '#include "torch_scratch.h"')
    return "torch_scratch.h"


def own_copy_of_dlpack(project: Repository) -> str:
    _include(project, '#include "dlpack.h"')
    return "dlpack.h"


def only_header_of_a_folder(project: Repository) -> str:
    project.write("csrc/detail/tile.h", "#pragma once\n")
    _include(project, '#include "detail/tile.h"')
    project.git("rm", "-q", "csrc/detail/tile.h")
    project.commit("Remove the only header of a folder")
    return "detail/tile.h"


def only_header_of_an_ignored_folder(project: Repository) -> str:
    project.write("csrc/detail/local_tile.h", "#pragma once\n")
    _include(project, '#include "detail/local_tile.h"')
    return "csrc/detail/local_tile.h is on this machine alone"


def moved_to_the_root(project: Repository) -> str:
    project.git("mv", "csrc/forward.h", "forward.h")
    project.commit("Move a header out of the sources")
    return '"forward.h": no such file, removed by commit'


def moved_into_the_package(project: Repository) -> str:
    project.write("flash/__init__.py", "")
    project.git("mv", "csrc/forward.h", "flash/forward.h")
    project.commit("Move a header to the Python that setup.py names")
    return '"forward.h": no such file, removed by commit'


def _moved_from_a_target(to: str, include: str) -> Callable[[Repository], str]:
    """Out of include/<name of a target>/, the only folder that the build looks into."""

    def plant(project: Repository) -> str:
        by_cmake(project)
        project.write("CMakeLists.txt", TARGET)
        project.write("include/tiles/copy.h", "#pragma once\n")
        _include(project, f"#include {include}")
        assert _found(project) == []
        (project.root / to).mkdir(parents=True, exist_ok=True)
        project.git("mv", "include/tiles/copy.h", to)
        project.commit("Move a header")
        return '"tiles/copy.h": no such file, removed by commit'

    plant.__name__ = f"moved_from_a_target_to_{to.replace('/', '_')}"
    return plant


def too_long_a_name(project: Repository) -> str:
    name = "x" * 300 + ".h"
    _include(project, f'#include "{name}"')
    return name


@pytest.mark.parametrize(
    "plant",
    [
        namesake_elsewhere,
        namesake_in_a_compiled_folder,
        parent_of_another_folder,
        named_by_a_test,
        named_near_a_write,
        named_like_cuda,
        named_like_torch,
        own_copy_of_dlpack,
        only_header_of_a_folder,
        only_header_of_an_ignored_folder,
        moved_to_the_root,
        moved_into_the_package,
        *(
            _moved_from_a_target(to, include)
            for to, include in (
                ("src", '"tiles/copy.h"'),
                ("include/other", "<tiles/copy.h>"),
                ("csrc/tiles", "<tiles/copy.h>"),
            )
        ),
        too_long_a_name,
    ],
    ids=lambda plant: plant.__name__,
)
def test_header_that_no_compiler_finds(
    project: Repository, plant: Callable[[Repository], str]
) -> None:
    """One error, which names the header."""
    name = plant(project)
    (finding,) = _found(project)
    assert finding.severity == "error"
    assert name in finding.found


@pytest.mark.parametrize(
    "text",
    [
        'inline const char* jit = R"(\n#include "jit_params.cuh"\n)";',
        '#include "cpuid.h"\n#include "emmintrin.h"',
        "#include <asm/unistd.h>\n#include <ext/pb_ds/assoc_container.hpp>",
        '#include "nppi_filtering_functions.h"\n#include "nvjpeg.h"',
    ],
    ids=["raw string", "compiler's headers", "system's folders", "toolkit"],
)
def test_headers_of_others_are_no_defect(project: Repository, text: str) -> None:
    """Also where the project has folders of the same names."""
    for folder in ("asm", "ext"):
        project.write(f"csrc/{folder}/own.h", "#pragma once\n")
    project.edit("setup.py", "sources=", 'include_dirs=["csrc"], sources=')
    project.commit("Vendor")
    _include(project, text)
    assert _found(project) == []


def test_header_that_is_no_longer_vendored(project: Repository) -> None:
    """In angle brackets, a package may have it now: no finding, and not called ok."""
    project.write("csrc/exr/exr.h", "#pragma once\n")
    project.edit("setup.py", "sources=", 'include_dirs=["csrc"], sources=')
    project.commit("Vendor")
    project.git("rm", "-q", "csrc/exr/exr.h")
    _include(project, "#include <exr/exr.h>")
    report = run(project.root, "source")
    assert [*report.errors, *report.warnings] == []
    skipped = {done.name: done.skipped for done in report.checks if done.skipped}
    elsewhere = "may come from elsewhere: git had it, and a package may have it now"
    assert skipped == {"missing headers": f'csrc/forward.cu:2: "exr/exr.h" {elsewhere}'}


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("csrc/version.h.in", "#define VERSION @VERSION@\n"),
        ("make_version.py", 'target = "csrc/version.h"\nopen(target, "w").write("")\n'),
        ("jit.py", 'write_if_different(folder / "version.h", "#define VERSION 1")\n'),
        ("jit.py", 'path = out / "version.h"\nwrite_if_different(path, "#define VERSION 1")\n'),
        ("make_version.sh", 'echo "#define VERSION 1" > csrc/version.h\n'),
        ("CMakeLists.txt", "add_custom_command(\n  OUTPUT version.h\n  COMMAND make_version)\n"),
        ("CMakeLists.txt", "include(others)\ncreate_version(flash include/flash)\n"),
        ("CMakeLists.txt", "find_path(VERSION_DIR\n  NAMES version.h)\n"),
        ("Makefile", "csrc/version.h: version.txt\n\tmake_version\n"),
        ("Makefile", "OUT := $(DIR)/version.h\n$(OUT): version.txt\n\tmake_version $@\n"),
    ],
)
def test_generated_header_is_no_defect(project: Repository, file: str, text: str) -> None:
    """Neither before the build nor after it, when git ignores the written files."""
    project.write(file, text)
    project.edit(".gitignore", "*.o", "*.o\nversion.h")
    _include(project, '#include "version.h"')
    assert _found(project) == []
    project.write("csrc/version.h", "#define VERSION 1\n")
    assert _found(project) == []


def test_one_lost_header_is_one_error(project: Repository) -> None:
    """However many files include it, and by whichever path; git brings it back."""
    for name in ("csrc/a.cu", "csrc/b.cu", "csrc/sub/c.cu"):
        path = "../config.h" if "sub" in name else "config.h"
        project.write(name, f'#include "{path}"\n')
    project.commit("More units")
    (project.root / "csrc/config.h").unlink()
    (finding,) = _found(project)
    assert finding.where == "csrc/forward.h:2"  # the first that the build reads
    assert finding.found.endswith("; 3 more files need it")
    assert finding.fix == "git checkout -- csrc/config.h"
    project.git("rm", "-q", "csrc/config.h")
    (finding,) = _found(project)
    assert finding.fix == "git checkout HEAD -- csrc/config.h"


def test_header_in_a_repository_of_its_own(project: Repository) -> None:
    """git does not add a file of a submodule, or of a repository inside this one."""
    add_submodule(project, "tiles.h", "#pragma once\n")
    project.edit("setup.py", "sources=", 'include_dirs=["third_party/tiles", "csrc"], sources=')
    _include(project, '#include "../third_party/tiles/local.h"')
    project.write("third_party/tiles/local.h", "#pragma once\n")
    (finding,) = _found(project)
    assert finding.fix.startswith("git -C third_party/tiles add -f local.h")


@pytest.mark.parametrize("file", ["csrc/old.h", "tests/unit.cpp"])
def test_header_of_what_no_build_reads(project: Repository, file: str) -> None:
    """It is a warning, until a unit of the build includes the file."""
    project.write(file, '#include "gone.h"\n')
    project.commit("Leave a file that nothing compiles")
    (finding,) = _found(project)
    assert finding.severity == "warning"
    assert finding.found.endswith("; no unit of the build includes this file")
    _include(project, f'#include "../{file}"')
    (finding,) = _found(project)
    assert finding.severity == "error"


def test_namesake_is_not_said_to_differ_in_case(project: Repository) -> None:
    """A header of the same name in another folder is no other spelling."""
    project.write("csrc/detail/copy.h", "#pragma once\n")
    project.write("csrc/detail/move.h", '#pragma once\n#include "../sm90/copy.h"\n')
    project.write("csrc/sm90/move.h", "#pragma once\n")
    _include(project, '#include "detail/move.h"')
    (finding,) = _found(project)
    assert finding.found == '#include "../sm90/copy.h": no such file, never in git'


def test_header_that_a_script_may_fetch(project: Repository) -> None:
    """Where a program downloads headers before it compiles, a missing one is a warning; a test,
    and a setup.py that downloads a package, say nothing of it."""
    fetch = (
        'HEADERS = ["include/tile.h"]\nfor name in HEADERS:\n    urlretrieve(URL + name, name)\n'
    )
    _include(project, '#include "tile.h"')
    project.write("tests/test_fetch.py", fetch)
    project.write("tools/setup.py", fetch)
    project.commit("Fetch elsewhere")
    assert [one.severity for one in _found(project)] == ["error"]
    project.write("flash/jit.py", fetch)
    project.commit("Fetch")
    (finding,) = _found(project)
    assert finding.severity == "warning"
    assert finding.found.endswith("; flash/jit.py may fetch it")


def test_export_header_of_cmake(project: Repository) -> None:
    """CMake names it after the target."""
    _include(project, '#include "flash_export.h"')
    assert len(_found(project)) == 1
    project.write("cmake/export.cmake", "generate_export_header(flash)\n")
    assert _found(project) == []


def test_include_directory_that_a_build_file_names(project: Repository) -> None:
    """For two headers of one path, and for one that is relative to it."""
    for folder in ("include", "other"):
        project.write(f"{folder}/shapes/tile.h", "#pragma once\n")
    project.edit("setup.py", "sources=", 'include_dirs=["include"], sources=')
    _include(project, '#include "shapes/tile.h"\n#include "../include/shapes/tile.h"')
    assert _found(project) == []


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("find_package(shapes REQUIRED)", "CMakeLists.txt:1 takes headers from elsewhere"),
        ("target_include_directories(_C PRIVATE ${DIRS})", "CMakeLists.txt:1 may name"),
        ("set(CMAKE_CXX_FLAGS -I${DIR})", "CMakeLists.txt:1 may name"),
    ],
)
def test_include_directories_that_only_the_build_evaluates(
    project: Repository, line: str, why: str
) -> None:
    """One of them may have the header: not checked, with the reason."""
    by_cmake(project)
    units = "csrc/bindings.cpp csrc/forward.cu csrc/combine.cpp"
    project.write("CMakeLists.txt", f"{line}\npybind11_add_module(_C {units})\n")
    project.write("include/shapes.h", "#pragma once\n")
    _include(project, '#include "shapes.h"')
    report = run(project.root, "source")
    assert [*report.errors, *report.warnings] == []
    assert why in next(one.skipped for one in report.checks if one.name == "missing headers")
