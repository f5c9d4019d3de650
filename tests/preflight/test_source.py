"""The source level of preflight: each defect is named, and nothing else is."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from preflight.kernel_project import add_submodule, kernel_project
from preflight.planted import DEFECTS, deleted
from preflight.planted_builds import by_cmake
from preflight.planted_defines import ERRORS, UNDECIDED, WARNINGS
from preflight.planted_dispatch import DISPATCHED, template_renamed
from preflight.planted_includes import INCLUDES
from preflight.planted_loads import LOADS
from preflight.planted_make import MAKE, UNCLEAR, build_with_make
from preflight.planted_marks import MARKS
from preflight.proposed import findings_of as _found
from preflight.proposed import try_fix
from revisions.repository import Repository

from flashbench.preflight import run

ALL_DEFECTS = DEFECTS | INCLUDES | MARKS | MAKE | LOADS | DISPATCHED | ERRORS | WARNINGS


def _skipped(root: Path) -> dict[str, str]:
    return {done.name: done.skipped for done in run(root, "source").checks if done.skipped}


@pytest.fixture
def project(tmp_path: Path) -> Repository:
    return kernel_project(tmp_path / "flash")


def test_healthy_project(project: Repository) -> None:
    """Nothing is found in a project that builds, and every check was made."""
    report = run(project.root, "source")
    assert [one.found for one in (*report.errors, *report.warnings)] == []
    assert [done.skipped for done in report.checks] == [""] * len(report.checks)


@pytest.mark.parametrize("plant", ALL_DEFECTS, ids=lambda plant: plant.__name__)
def test_each_defect_is_named_and_nothing_else(
    project: Repository, plant: Callable[[Repository], None]
) -> None:
    """One defect gives one finding: its check, place and problem, and a fix that mends it."""
    check, where, found = ALL_DEFECTS[plant]
    plant(project)
    (finding,) = _found(project.root)
    assert finding.check == check
    assert where in finding.where
    assert found in finding.found
    assert finding.severity == ("warning" if plant in WARNINGS else "error")
    try_fix(project.root, finding, project.root.parent / "clone")


def test_template_gets_its_name_back(project: Repository) -> None:
    """The fix renames the body and its instantiations, and searches nothing."""
    template_renamed(project)
    (finding,) = _found(project.root)
    assert finding.fix == r"sed -i 's|\bstart\b|launch|g' csrc/forward.cu"


@pytest.mark.parametrize("plant", UNDECIDED, ids=lambda plant: plant.__name__)
def test_unit_left_out_that_only_a_compiler_can_judge(
    project: Repository, plant: Callable[[Repository], str]
) -> None:
    """Members of classes, deduced and dispatched types: no finding, and not called ok."""
    wanted = plant(project)
    project.commit("Leave out a unit")
    assert _found(project.root) == []
    assert wanted in _skipped(project.root)["bindings against units"]


def test_instantiation_for_a_type_that_text_does_not_tell(project: Repository) -> None:
    """The body is out of sight, and only a compiler knows the type: not called ok."""
    call = "flash::launch<c10::BFloat16, 64>"
    project.edit("csrc/bindings.cpp", call, "using T = typename TypeOf<kBf16>::type; " + call)
    project.edit("csrc/bindings.cpp", call, "flash::launch<T, 64>")
    project.commit("Compute a type")
    assert _found(project.root) == []
    said = "csrc/bindings.cpp:7: only a compiler knows what may instantiate launch<..., 64>"
    assert _skipped(project.root) == {"explicit instantiations": said}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "#ifdef WIDE\nusing real_t = float;\n#endif\n",
        "using real_t = float;\ntemplate <typename real_t> struct Sum;\n",
        "using real_t = float;\nstruct Wide { using real_t = double; };\n",
        "using real_t = Traits<int>::type;\n",
        "template <typename T> using real_t = float;\n",
    ],
)
def test_instantiation_by_an_alias(project: Repository, text: str) -> None:
    """Only a compiler knows whether it is the one that is called: not called ok."""
    project.edit("csrc/config.h", "constexpr int", f"{text}constexpr int")
    project.edit("csrc/forward.cu", "launch<at::BFloat16, 64>", "launch<real_t, 64>")
    project.commit("Instantiate an alias")
    assert _found(project.root) == []
    said = "csrc/bindings.cpp:7: csrc/forward.cu may instantiate launch<bf16, 64>"
    assert _skipped(project.root) == {"explicit instantiations": said}


@pytest.mark.parametrize(
    "text", ["using real_t = {};\n", "typedef {}\nreal_t;\n", "using real_t = {};\n" * 2]
)
def test_instantiation_by_an_alias_that_text_resolves(project: Repository, text: str) -> None:
    """In another header, an alias of the type that is called counts, one of another does not."""
    alias, other = (text.replace("{}", one) for one in ("at::BFloat16", "float"))
    project.edit("csrc/config.h", "constexpr int", f"{alias}constexpr int")
    project.edit("csrc/forward.cu", "launch<at::BFloat16, 64>", "launch<real_t, 64>")
    project.commit("Instantiate an alias")
    assert (_found(project.root), _skipped(project.root)) == ([], {})
    project.edit("csrc/config.h", alias, other)
    project.commit("Make it another type")
    (finding,) = _found(project.root)
    said = "calls launch<bf16, 64>, which csrc/forward.cu does not instantiate"
    assert (finding.where, finding.found) == ("csrc/bindings.cpp:7", said)


@pytest.mark.parametrize("text", UNCLEAR)
def test_what_only_make_evaluates_is_not_checked(project: Repository, text: str) -> None:
    """A name that the makefile's text does not tell is no finding, and not called ok."""
    build_with_make(project, text)
    project.commit("Compute names")
    assert _found(project.root) == []
    assert UNCLEAR[text] in _skipped(project.root)["listed sources"]


def test_library_that_only_the_run_names(project: Repository) -> None:
    """A path that a call gives is no finding, and not called ok."""
    project.write("flash/api.py", "import torch\ntorch.ops.load_library(find())\nattention = 1\n")
    project.commit("Find the library")
    assert _found(project.root) == []
    wanted = "flash/api.py:2 loads a library whose name only the run knows"
    assert _skipped(project.root)["loaded libraries"] == wanted


def test_library_that_a_function_hands_on(project: Repository) -> None:
    """Who calls what of it, text does not tell: no finding, and not called ok."""
    project.write("CMakeLists.txt", "add_library(flash SHARED csrc/combine.cpp)\n")
    text = "import ctypes\ndef load(path):\n    return ctypes.CDLL(path)\nattention = load\n"
    project.write("flash/api.py", text)
    project.commit("Load the library")
    assert _found(project.root) == []
    wanted = "flash/api.py:3 loads a library, and text does not tell who calls it"
    assert _skipped(project.root)["called names"] == wanted


def test_variable_of_cmake(project: Repository) -> None:
    """Literal values are put in, one after another; what none gives is not checked."""
    by_cmake(project)
    units = "bindings.cpp forward.cu combine.cpp"
    text = f"set(ROOT kernels)\npybind11_add_module(_C {units} ${{ROOT}}/a.cu ${{ARCH}}/b.cu)\n"
    project.write("csrc/CMakeLists.txt", text)
    project.commit("Name a unit by a variable")
    (finding,) = _found(project.root)
    assert (finding.check, finding.where) == ("listed sources", "csrc/CMakeLists.txt:2")
    assert finding.found.startswith("lists kernels/a.cu: no such file")
    wanted = "csrc/CMakeLists.txt:2 lists ${ARCH}/b.cu, which only the build evaluates"
    assert _skipped(project.root)["listed sources"] == wanted


def test_what_is_meant_is_no_defect(project: Repository) -> None:
    """Guards, conditions, generated headers, macros that write code, work in progress."""
    project.write(
        "csrc/meant.h",
        "#pragma once\n"
        "#ifndef WARP_SIZE\n#define WARP_SIZE 64\n#endif\n"
        "#ifdef __CUDA_ARCH__\n#define TILE 64\n#undef TILE\n#endif\n"
        "constexpr int TILE = 32;  // after the #undef\n"
        '#include "generated.h"\n'
        '#include <vector>\n#include "algorithm"\n'
        '#include "cuda_fp16.h"\n#include "cutlass/gemm.h"\n'
        '// #include "commented.h"\n/* #include "out.h" */\n'
        'inline const char* text = "#include \\"quoted.h\\" // ";\n'
        "#define MAKE(T) template void made<T>(T*);\n"
        "template <typename T> void made(T* x);\n"
        "struct Local { void method(int); };\n",
    )
    project.write("csrc/generated.h.in", "#define VERSION @VERSION@\n")
    project.edit(
        "csrc/bindings.cpp", '#include "forward.h"', '#include "forward.h"\n#include "meant.h"'
    )
    project.edit(
        "csrc/bindings.cpp",
        "flash::combine(nullptr",
        "made<float>(nullptr); flash::combine(nullptr",
    )
    project.commit("Write what looks like defects")
    project.write("csrc/new.cu", '#include "new.h"\n')
    project.write("csrc/new.h", "#pragma once\n")
    assert _found(project.root) == []


def test_conditional_include_is_a_warning(project: Repository) -> None:
    """A header that may be absent by design fails nothing, and is said."""
    project.edit(
        "csrc/forward.h", "#pragma once", '#pragma once\n#ifdef PROFILE\n#include "trace.h"\n#endif'
    )
    project.commit("Trace where there is a tracer")
    (finding,) = _found(project.root)
    assert (finding.check, finding.severity) == ("missing headers", "warning")


@pytest.mark.parametrize(
    ("file", "text", "by"),
    [
        ("setup.py", "import npu_kit\n", "setup.py:12 names npu_kit"),
        ("requirements.txt", "numpy\nNPU-kit>=2\n", "requirements.txt:2 names npu_kit"),
        ("CMakeLists.txt", "find_package(Kit)\n", "CMakeLists.txt:1 takes headers from elsewhere"),
    ],
)
def test_header_that_may_come_from_elsewhere(
    project: Repository, file: str, text: str, by: str
) -> None:
    """A build file tells of who may have the folder: not a finding, and not called ok."""
    path = project.root / file
    project.write(file, (path.read_text() if path.exists() else "") + text)
    project.edit("csrc/forward.cu", "<cuda_bf16.h>", '<cuda_bf16.h>\n#include "npu_kit/stream.h"')
    project.commit("Include a header of a package")
    assert _found(project.root) == []
    wanted = f'csrc/forward.cu:3: "npu_kit/stream.h" may come from elsewhere: {by}'
    assert _skipped(project.root)["missing headers"] == wanted


def test_macro_behind_a_constant_is_a_warning(project: Repository) -> None:
    """It builds, and what comes after it uses the macro's value."""
    project.edit("csrc/forward.cu", "#include <cuda_bf16.h>", "#define WARP_SIZE 64")
    project.commit("Define the constant again")
    (finding,) = _found(project.root)
    assert (finding.where, finding.severity) == ("csrc/forward.cu:2", "warning")
    assert finding.found == "#define WARP_SIZE hides the constant WARP_SIZE of csrc/config.h:3"


def test_submodule_that_was_not_fetched(project: Repository, tmp_path: Path) -> None:
    """The submodule is named; headers that may be in it are not called missing."""
    add_submodule(project, "tiles.h", "#pragma once\n")
    project.edit("csrc/forward.h", "#pragma once", '#pragma once\n#include "tiles.h"')
    project.commit("Use a submodule")
    assert _found(project.root) == []
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(project.root), str(clone)], check=True)
    report = run(clone, "source")
    assert report.errors == []
    assert [(one.check, one.where) for one in report.warnings] == [
        ("submodules", "third_party/tiles")
    ]
    skipped = {done.name: done.skipped for done in report.checks if done.skipped}
    assert skipped == {"missing headers": "1 includes may be in submodules that are not fetched"}
    header = clone / "csrc/forward.h"
    header.write_text(header.read_text().replace("tiles.h", "../third_party/tiles/tiles.h"))
    (finding,) = _found(clone)
    assert (finding.check, finding.severity) == ("submodules", "error")
    assert finding.found.endswith("; csrc/forward.h:2 needs ../third_party/tiles/tiles.h")
    assert "missing headers" not in _skipped(clone)
    (clone / "csrc/config.h").unlink()  # git had it here, so no submodule has it
    errors = [one.where for one in run(clone, "source").errors]
    assert errors == ["third_party/tiles", "csrc/forward.h:3"]


def test_submodule_at_another_commit(project: Repository) -> None:
    """It was pulled further than the commit records, so a clean clone has other headers."""
    other = add_submodule(project, "tiles.h", "#pragma once\n")
    recorded = other.git("rev-parse", "HEAD")
    project.commit("Use a submodule")
    other.write("more.h", "#pragma once\n")
    ahead = other.commit("More")
    project.git("-C", "third_party/tiles", "pull", "-q")
    (finding,) = _found(project.root)
    assert (finding.check, finding.severity) == ("submodules", "warning")
    assert finding.found == f"is at {ahead[:10]}; a clean clone gets {recorded[:10]}"
    assert finding.fix.startswith("git submodule update -- third_party/tiles")
    project.git("submodule", "--quiet", "update", "--", "third_party/tiles")
    assert _found(project.root) == []


def test_without_git(project: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without git the rest is still checked, and the checks that need git are named."""
    deleted(project)
    monkeypatch.setenv("PATH", str(tmp_path))
    report = run(project.root, "source")
    assert {finding.check for finding in report.errors} == {"missing headers"}
    skipped = {done.name for done in report.checks if done.skipped}
    assert skipped == {"repository", "submodules", "headers in git", "files in git"}


def test_definition_that_no_build_compiles(project: Repository) -> None:
    """A body under `#if 0` defines nothing; the other branch of it is no condition."""
    project.edit("csrc/combine.cpp", '#include "forward.h"', '#include "forward.h"\n#if 0')
    text = (project.root / "csrc/combine.cpp").read_text()
    project.write("csrc/combine.cpp", f'{text}#else\n#include "tile.h"\n#endif\n')
    project.commit("Leave out a body")
    assert [(one.check, one.severity) for one in _found(project.root)] == [
        ("missing headers", "error"),
        ("bindings against units", "error"),
    ]


def test_broken_files_stop_nothing(project: Repository) -> None:
    """Files that are no text, loops of links and settings that are no TOML are survived."""
    project.write("setup.py", "def broken(:\n")
    (project.root / "csrc/noise.cu").write_bytes(os.urandom(5000))
    (project.root / "csrc/deep.cpp").write_text("{" * 5000 + '#include "' + "x" * 5000)
    (project.root / "csrc/loop.h").symlink_to("loop.h")
    project.write("pyproject.toml", "[tool.flashbench\n")
    project.commit("Break what can be broken")
    assert [(one.check, one.where) for one in _found(project.root)] == [
        ("project settings", "pyproject.toml"),
        ("listed sources", "setup.py:1"),
    ]


def test_what_cannot_be_read_is_not_called_ok(project: Repository) -> None:
    """Each check that reads sources names a file that it left out."""
    (project.root / "csrc/table.cu").write_text("// \n" * 600_000)
    project.commit("A unit of 2.4 MB")
    report = run(project.root, "source")
    assert report.errors == []
    skipped = {done.name: done.skipped for done in report.checks if done.skipped}
    assert set(skipped.values()) == {"csrc/table.cu: 2.4 MB, more than 2 MB"}
    assert {"missing headers", "bindings against units", "explicit instantiations"} <= set(skipped)


def test_damaged_repository_is_named(project: Repository) -> None:
    """Objects that are gone, or no HEAD: an error, and the other checks go on."""
    shutil.rmtree(project.root / ".git/objects")
    (project.root / ".git/objects").mkdir()
    assert [one.check for one in run(project.root, "source").errors] == ["repository"]
    (project.root / ".git/HEAD").unlink()
    (finding,) = run(project.root, "source").errors
    assert (finding.check, finding.found) == ("repository", "has lost all its objects")


@pytest.mark.parametrize("text", [None, b"", b"DIRC", b"no index at all"])
def test_index_that_is_lost(project: Repository, text: bytes | None) -> None:
    """One error, and git makes the index again from HEAD."""
    index = project.root / ".git/index"
    index.unlink()
    if text is not None:
        index.write_bytes(text)
    (finding,) = _found(project.root)
    assert (finding.check, "index" in finding.found) == ("repository", True), finding
    subprocess.run(["sh", "-c", finding.fix], cwd=project.root, check=True, capture_output=True)
    assert _found(project.root) == []


def test_module_that_is_called_c_and_built_under_another_name(project: Repository) -> None:
    """`_C` is a name, not a macro."""
    project.edit("setup.py", "flash._C", "flash.flash_science")
    project.commit("Name the library after the paper")
    assert "_C" in " ".join(one.found for one in run(project.root, "source").errors)
