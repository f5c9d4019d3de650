"""The source level of preflight: each defect is named, and nothing else is."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from preflight.kernel_project import kernel_project
from revisions.repository import Repository

from flashbench.preflight import Finding, run


def _found(root: Path) -> list[Finding]:
    report = run(root, "source")
    return [*report.errors, *report.warnings]


@pytest.fixture
def project(tmp_path: Path) -> Repository:
    return kernel_project(tmp_path / "flash")


def test_healthy_project(project: Repository) -> None:
    """Nothing is found in a project that builds, and every check was made."""
    report = run(project.root, "source")
    assert [one.found for one in (*report.errors, *report.warnings)] == []
    assert [done.skipped for done in report.checks] == [""] * len(report.checks)


def never_committed(project: Repository) -> None:
    project.edit(
        "csrc/forward.cu", '#include "forward.h"', '#include "forward.h"\n#include "tile.h"'
    )
    project.commit("Include a header that exists on another machine")


def untracked(project: Repository) -> None:
    never_committed(project)
    project.write("csrc/tile.h", "#pragma once\n")


def ignored(project: Repository) -> None:
    project.edit("csrc/forward.cu", "<cuda_bf16.h>", '<cuda_bf16.h>\n#include "local_tile.h"')
    project.commit("Include a header that git ignores")
    project.write("csrc/local_tile.h", "#pragma once\n")


def staged(project: Repository) -> None:
    untracked(project)
    project.git("add", "csrc/tile.h")


def deleted(project: Repository) -> None:
    project.git("rm", "-q", "csrc/config.h")
    project.commit("Remove a header that is still included")


def other_case(project: Repository) -> None:
    project.git("mv", "csrc/config.h", "csrc/Config.h")
    project.commit("Rename for a file system that ignores case")


def out_of_the_repository(project: Repository) -> None:
    (project.root / "csrc/config.h").unlink()
    target = project.root.parent / "config.h"
    target.write_text("#pragma once\nconstexpr int WARP_SIZE = 32;\n")
    (project.root / "csrc/config.h").symlink_to(target)
    project.commit("Link a header of this machine")


def macro_clash(project: Repository) -> None:
    project.write("csrc/old.h", "#pragma once\n#define WARP_SIZE 32\n")
    project.edit("csrc/forward.h", "#pragma once", '#pragma once\n#include "old.h"')
    project.commit("Bring the macro back")


def enumerator_clash(project: Repository) -> None:
    project.edit(
        "csrc/config.h",
        "constexpr int",
        "#define TILE 64\nenum Sizes { HEAD = 8, TILE = 64 };\nconstexpr int",
    )
    project.commit("Name an enumerator like a macro")


def instantiation_missing(project: Repository) -> None:
    line = "template void launch<at::BFloat16, 64>(const at::BFloat16*, at::BFloat16*, int);\n"
    project.edit("csrc/forward.cu", line, "")
    project.commit("Instantiate fp16 alone")


def other_head_dim(project: Repository) -> None:
    project.edit("csrc/bindings.cpp", "c10::BFloat16, 64", "c10::BFloat16, 128")
    project.commit("Call a head dim that nobody instantiates")


def only_extern(project: Repository) -> None:
    project.edit(
        "csrc/forward.cu", "template void launch<at::BF", "extern template void launch<at::BF"
    )
    project.commit("Promise an instantiation, and make none")


def specialisation_declared(project: Repository) -> None:
    project.edit(
        "csrc/forward.h",
        "}  // namespace flash",
        "template <> void launch<float, 64>(const float* q, float* out, int rows);\n"
        "}  // namespace flash",
    )
    project.edit(
        "csrc/bindings.cpp",
        "    flash::combine",
        "    flash::launch<float, 64>(nullptr, nullptr, 1);\n    flash::combine",
    )
    project.commit("Declare a specialisation that nobody writes")


def specialisation_missing(project: Repository) -> None:
    project.edit(
        "csrc/forward.h",
        "}  // namespace flash",
        "template <typename T> void scale(T* x, float by);\n}  // namespace flash",
    )
    project.edit(
        "csrc/forward.cu",
        "template <typename T, int HeadDim>\nvoid",
        "template <> void scale<at::Half>(at::Half* x, float by) { *x *= by; }\n"
        "template <typename T, int HeadDim>\nvoid",
    )
    project.edit(
        "csrc/bindings.cpp",
        "    flash::combine",
        "    flash::scale<at::Half>(nullptr, 1.f);\n"
        "    flash::scale<c10::BFloat16>(nullptr, 1.f);\n    flash::combine",
    )
    project.commit("Specialise for fp16 alone")


def defined_nowhere(project: Repository) -> None:
    project.edit("csrc/combine.cpp", "flash::combine", "flash::combine_all")
    project.commit("Rename the definition alone")


def defined_nowhere_beside_a_paste(project: Repository) -> None:
    project.write("csrc/names.h", "#pragma once\n#define KERNEL(K) kernel_of_##K##_bytes\n")
    project.edit("csrc/forward.h", "#pragma once", '#pragma once\n#include "names.h"')
    defined_nowhere(project)


def named_in_prose(project: Repository) -> None:
    project.write("flash/tensors.py", '"""csrc/combine.cpp checks them, too."""\n')
    project.git("rm", "-q", "csrc/combine.cpp")
    project.commit("Remove a unit that a docstring speaks of")


def module_of_cmake(project: Repository) -> None:
    cmake = (
        "add_library(kernels OBJECT forward.cu)\npybind11_add_module(_C bindings.cpp combine.cpp)\n"
    )
    project.write("csrc/CMakeLists.txt", cmake)
    project.write("setup.py", 'subprocess.run(["cmake", "-S", ROOT / "csrc"])\n')
    module_name(project)


def unit_of_cmake(project: Repository) -> None:
    project.write("csrc/CMakeLists.txt", "pybind11_add_module(_C bindings.cpp backward.cu)\n")
    project.write("setup.py", 'subprocess.run(["cmake", "-S", ROOT / "csrc"])\n')
    project.commit("List a unit that was never written, for CMake")


def not_compiled(project: Repository) -> None:
    project.edit("setup.py", ', "csrc/combine.cpp"', "")
    project.commit("Forget a unit")


def listed_missing(project: Repository) -> None:
    project.edit("setup.py", '"csrc/combine.cpp"', '"csrc/combine.cpp", "csrc/backward.cu"')
    project.commit("List a unit that was never written")


def listed_untracked(project: Repository) -> None:
    listed_missing(project)
    project.write("csrc/backward.cu", "\n")


def module_name(project: Repository) -> None:
    project.edit(
        "csrc/bindings.cpp", "PYBIND11_MODULE(_C", "PYBIND11_MODULE(flash_attention_science"
    )
    project.commit("Name the module after the paper")


def sources_gone(project: Repository) -> None:
    project.edit("pyproject.toml", '"csrc", "setup.py"', '"csrc", "cuda", "setup.py"')
    project.commit("Name a folder that is not there")


def callable_gone(project: Repository) -> None:
    project.edit("pyproject.toml", "flash.api:attention", "flash.interface:attention")
    build = 'build = ["python", "setup.py", "build_ext", "--inplace"]'
    project.edit("pyproject.toml", build, "build = []")
    project.commit("Name a module that is not there")


def build_tool(project: Repository) -> None:
    project.edit(
        "pyproject.toml", '["python", "setup.py", "build_ext", "--inplace"]', '["no-such-make"]'
    )
    project.commit("Build with a tool that is not here")


def unknown_setting(project: Repository) -> None:
    project.edit("pyproject.toml", "sources = ", "headers = ")
    project.commit("Write a setting that there is not")


DEFECTS: dict[Callable[[Repository], None], tuple[str, str, str]] = {
    never_committed: ("missing headers", "csrc/forward.cu:2", "tile.h"),
    untracked: ("headers in git", "csrc/forward.cu:2", "csrc/tile.h is on this machine alone"),
    ignored: ("headers in git", "csrc/forward.cu:3", "csrc/local_tile.h is on this machine alone"),
    staged: ("headers in git", "csrc/forward.cu:2", "csrc/tile.h is staged, not committed"),
    deleted: ("missing headers", "csrc/forward.h:2", "config.h"),
    other_case: ("missing headers", "csrc/forward.h:2", "csrc/Config.h differs in case alone"),
    out_of_the_repository: ("headers in git", "csrc/forward.h:2", "a link out of the repository"),
    macro_clash: ("macros against constants", "csrc/old.h:2", "csrc/config.h:3"),
    enumerator_clash: ("macros against constants", "csrc/config.h:3", "TILE"),
    instantiation_missing: ("explicit instantiations", "csrc/bindings.cpp:7", "launch<bf16, 64>"),
    other_head_dim: ("explicit instantiations", "csrc/bindings.cpp:7", "launch<bf16, 128>"),
    only_extern: ("explicit instantiations", "csrc/bindings.cpp:7", "launch<bf16, 64>"),
    specialisation_declared: (
        "explicit instantiations",
        "csrc/bindings.cpp:9",
        "launch<float, 64>, which is declared as a specialisation and defined nowhere",
    ),
    specialisation_missing: (
        "explicit instantiations",
        "csrc/bindings.cpp:10",
        "scale<bf16>, which nothing specialises, as csrc/forward.cu does for other types",
    ),
    defined_nowhere: ("bindings against units", "csrc/forward.h:7", "no unit defines it"),
    defined_nowhere_beside_a_paste: (
        "bindings against units",
        "csrc/forward.h:8",
        "no unit defines it",
    ),
    named_in_prose: ("listed sources", "setup.py:8", "csrc/combine.cpp: no such file"),
    module_of_cmake: ("module name", "csrc/bindings.cpp:12", "csrc/CMakeLists.txt:2 builds _C"),
    unit_of_cmake: ("listed sources", "csrc/CMakeLists.txt:1", "lists backward.cu: no such file"),
    not_compiled: ("bindings against units", "csrc/forward.h:7", "csrc/combine.cpp defines it"),
    listed_missing: ("listed sources", "setup.py:8", "csrc/backward.cu: no such file"),
    listed_untracked: (
        "listed sources",
        "setup.py:8",
        "csrc/backward.cu, which is on this machine",
    ),
    module_name: ("module name", "csrc/bindings.cpp:12", "flash_attention_science"),
    sources_gone: ("project settings", "[tool.flashbench.project] sources", "cuda does not exist"),
    callable_gone: ("project settings", "[tool.flashbench.project] callable", "flash.interface"),
    unknown_setting: ("project settings", "pyproject.toml", "headers: is no setting"),
    build_tool: ("project settings", "[tool.flashbench.project] build", "no-such-make"),
}


@pytest.mark.parametrize("plant", DEFECTS, ids=lambda plant: plant.__name__)
def test_each_defect_is_named_and_nothing_else(
    project: Repository, plant: Callable[[Repository], None]
) -> None:
    """One defect, one finding: its check, its place, what is wrong, and a fix."""
    check, where, found = DEFECTS[plant]
    plant(project)
    (finding,) = _found(project.root)
    assert finding.check == check
    assert where in finding.where
    assert found in finding.found
    assert finding.fix
    assert finding.severity == "error"


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


def test_macro_behind_a_constant_is_a_warning(project: Repository) -> None:
    """It builds, and what comes after it uses the macro's value."""
    project.edit("csrc/forward.cu", "#include <cuda_bf16.h>", "#define WARP_SIZE 64")
    project.commit("Define the constant again")
    (finding,) = _found(project.root)
    assert (finding.where, finding.severity) == ("csrc/forward.cu:2", "warning")
    assert finding.found == "#define WARP_SIZE hides the constant WARP_SIZE of csrc/config.h:3"


def test_submodule_that_was_not_fetched(project: Repository, tmp_path: Path) -> None:
    """The submodule is named; headers that may be in it are not called missing."""
    other = Repository(tmp_path / "tiles")
    other.write("tiles.h", "#pragma once\n")
    other.commit("Tiles")
    project.git(
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        str(other.root),
        "third_party/tiles",
    )
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


def test_submodule_at_another_commit(project: Repository, tmp_path: Path) -> None:
    """It was pulled further than the commit records, so a clean clone has other headers."""
    other = Repository(tmp_path / "tiles")
    other.write("tiles.h", "#pragma once\n")
    recorded = other.commit("Tiles")
    allowed = ("-c", "protocol.file.allow=always")
    project.git(*allowed, "submodule", "--quiet", "add", str(other.root), "third_party/tiles")
    project.commit("Use a submodule")
    other.write("more.h", "#pragma once\n")
    ahead = other.commit("More")
    project.git("-C", "third_party/tiles", "pull", "-q")
    (finding,) = _found(project.root)
    assert (finding.check, finding.severity) == ("submodules", "warning")
    assert finding.found == f"is at {ahead[:10]}; a clean clone gets {recorded[:10]}"
    assert finding.fix.startswith("git submodule update -- third_party/tiles")
    project.git(*allowed, "submodule", "--quiet", "update", "--", "third_party/tiles")
    assert _found(project.root) == []


def test_without_git(project: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where git is missing the rest is still checked, and what it would have told is named."""
    deleted(project)
    monkeypatch.setenv("PATH", str(tmp_path))
    report = run(project.root, "source")
    assert {finding.check for finding in report.errors} == {"missing headers"}
    skipped = {done.name for done in report.checks if done.skipped}
    assert skipped == {"submodules", "headers in git"}


def test_broken_files_stop_nothing(project: Repository) -> None:
    """Files that are no text, loops of links and settings that are no TOML are survived."""
    project.write("setup.py", "def broken(:\n")
    (project.root / "csrc/noise.cu").write_bytes(os.urandom(5000))
    (project.root / "csrc/deep.cpp").write_text("{" * 5000 + '#include "' + "x" * 5000)
    (project.root / "csrc/loop.h").symlink_to("loop.h")
    project.write("pyproject.toml", "[tool.flashbench\n")
    project.commit("Break what can be broken")
    assert [one.check for one in _found(project.root)] == ["project settings"]


def test_module_that_is_called_c_and_built_under_another_name(project: Repository) -> None:
    """`_C` is a name, not a macro."""
    project.edit("setup.py", "flash._C", "flash.flash_science")
    project.commit("Name the library after the paper")
    assert "_C" in " ".join(one.found for one in run(project.root, "source").errors)
