"""Defects planted in the kernel project, each with the one finding that names it."""

from collections.abc import Callable

from preflight.planted_builds import (
    attribute_gone,
    build_tool,
    build_tool_that_is_a_placeholder,
    callable_gone,
    deleted_from_a_glob,
    fewer_parameters,
    imported_beside_it_by_another_name,
    imported_by_another_name,
    imported_from_no_package,
    imported_with_its_package,
    left_out_beside_a_glob,
    listed_by_a_comprehension,
    listed_missing,
    listed_untracked,
    missing_from_a_comprehension,
    module_gone,
    module_name,
    module_of_cmake,
    not_compiled,
    other_namespace,
    other_parameters,
    package_gone,
    path_gone,
    removed_from_a_glob,
    renamed_below_a_header,
    renamed_beside_a_namesake,
    script_gone,
    sources_gone,
    unit_of_cmake,
    unknown_setting,
)
from preflight.planted_files import FILES
from preflight.planted_reads import READS
from revisions.repository import Repository


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


def case_of_a_file(project: Repository) -> None:
    """Two files include it by the name that git had."""
    project.edit(
        "csrc/combine.cpp", '#include "forward.h"', '#include "config.h"\n#include "forward.h"'
    )
    project.commit("Include it twice")
    other_case(project)


def cases_mixed(project: Repository) -> None:
    """In three ways, as a file system that ignores case takes them."""
    for file, name in {"forward.cu": "CONFIG.h", "combine.cpp": "Config.h"}.items():
        project.edit(f"csrc/{file}", '#include "forward.h"', f'#include "{name}"')
    project.edit("csrc/forward.h", "config.h", "conFig.h")
    project.commit("Write on another system")


def out_of_the_repository(project: Repository) -> None:
    (project.root / "csrc/config.h").unlink()
    target = project.root.parent / "config.h"
    target.write_text("#pragma once\nconstexpr int WARP_SIZE = 32;\n")
    (project.root / "csrc/config.h").symlink_to(target)
    project.commit("Link a header of this machine")


def macro_clash(project: Repository) -> None:
    project.write("csrc/old.h", "#pragma once\n#define WARP_SIZE 32\n")
    project.write("csrc/table.impl", "")  # neither a unit nor a header
    includes = '#pragma once\n#include "old.h"\n#include "table.impl"'
    project.edit("csrc/forward.h", "#pragma once", includes)
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


BF16 = "template void launch<at::BFloat16, 64>(const at::BFloat16*, at::BFloat16*, int);\n"


def body_in_a_header(project: Repository) -> None:
    """The body in kernel.cuh; forward.cu instantiates it for fp16, forward_bf16.cu for bf16."""
    text = (project.root / "csrc/forward.cu").read_text()
    begin, end = text.index("template"), text.index("template void launch<at::Half")
    body, instantiations = text[begin:end], text[end:]
    head = '#include "kernel.cuh"\n\nnamespace flash {\n'
    header = f'#pragma once\n#include "forward.h"\n\nnamespace flash {{\n{body}}}  // namespace\n'
    project.write("csrc/kernel.cuh", header)
    project.write("csrc/forward.cu", head + instantiations.replace(BF16, ""))
    project.write("csrc/forward_bf16.cu", f"{head}{BF16}}}  // namespace flash\n")
    project.edit("setup.py", '"csrc/forward.cu"', '"csrc/forward.cu", "csrc/forward_bf16.cu"')
    project.commit("Write a unit a dtype")


def instantiation_not_compiled(project: Repository) -> None:
    body_in_a_header(project)
    project.edit("setup.py", ', "csrc/forward_bf16.cu"', "")
    project.commit("Forget the unit of bf16")


def instantiation_missing_beside_a_header(project: Repository) -> None:
    body_in_a_header(project)
    project.edit("csrc/forward_bf16.cu", BF16, "")
    project.commit("Forget the instantiation for bf16")


def specialisation_not_compiled(project: Repository) -> None:
    specialisation_missing(project)
    body = "template <> void flash::scale<at::BFloat16>(at::BFloat16* x, float by) { *x *= by; }\n"
    project.write("csrc/scale_bf16.cu", f'#include "forward.h"\n{body}')
    project.commit("Specialise for bf16 in a unit that is not compiled")


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


DEFECTS: dict[Callable[[Repository], None], tuple[str, str, str]] = {
    never_committed: ("missing headers", "csrc/forward.cu:2", "tile.h"),
    untracked: ("headers in git", "csrc/forward.cu:2", "csrc/tile.h is on this machine alone"),
    ignored: ("headers in git", "csrc/forward.cu:3", "csrc/local_tile.h is on this machine alone"),
    staged: ("headers in git", "csrc/forward.cu:2", "csrc/tile.h is staged, not committed"),
    deleted: ("missing headers", "csrc/forward.h:2", "config.h"),
    other_case: ("missing headers", "csrc/forward.h:2", "csrc/Config.h differs in case alone"),
    case_of_a_file: ("missing headers", "csrc/combine.cpp:1", "differs in case alone; 1 more file"),
    cases_mixed: ("missing headers", "csrc/combine.cpp:1", "differs in case alone; 2 more files"),
    out_of_the_repository: ("headers in git", "csrc/forward.h:2", "a link out of the repository"),
    macro_clash: ("macros against constants", "csrc/old.h:2", "csrc/config.h:3"),
    enumerator_clash: ("macros against constants", "csrc/config.h:3", "TILE"),
    instantiation_missing: ("explicit instantiations", "csrc/bindings.cpp:7", "launch<bf16, 64>"),
    other_head_dim: ("explicit instantiations", "csrc/bindings.cpp:7", "launch<bf16, 128>"),
    instantiation_not_compiled: (
        "explicit instantiations",
        "csrc/bindings.cpp:7",
        "csrc/forward_bf16.cu instantiates, and the build does not compile it",
    ),
    instantiation_missing_beside_a_header: (
        "explicit instantiations",
        "csrc/bindings.cpp:7",
        "calls launch<bf16, 64>, which csrc/forward_bf16.cu does not instantiate",
    ),
    specialisation_not_compiled: (
        "explicit instantiations",
        "csrc/bindings.cpp:10",
        "csrc/scale_bf16.cu instantiates, and the build does not compile it",
    ),
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
    listed_by_a_comprehension: (
        "bindings against units",
        "csrc/forward.h:7",
        "csrc/combine.cpp defines it, which the build does not compile",
    ),
    missing_from_a_comprehension: (
        "listed sources",
        "setup.py:8",
        "csrc/backward.cpp: no such file",
    ),
    left_out_beside_a_glob: (
        "bindings against units",
        "csrc/forward.h:11",
        "csrc/combine.cpp defines it, which the build does not compile",
    ),
    removed_from_a_glob: (
        "bindings against units",
        "csrc/forward.h:8",
        "csrc/forward.cu calls sm80_bf16: csrc/sm80/bf16.cu defined it, which was removed",
    ),
    deleted_from_a_glob: (
        "bindings against units",
        "csrc/forward.h:8",
        "csrc/sm80/bf16.cu defined it, which was removed",
    ),
    other_namespace: (
        "bindings against units",
        "csrc/forward.h:7",
        "calls flash::combine: csrc/combine.cpp:3 defines combine",
    ),
    other_parameters: (
        "bindings against units",
        "csrc/forward.h:7",
        "csrc/combine.cpp:3 defines it with (float* partial, float* out, int count)",
    ),
    renamed_below_a_header: (
        "bindings against units",
        "csrc/forward.h:7",
        "csrc/finish.h calls combine: no unit defines it; csrc/combine.cpp:3 defines combine_all",
    ),
    renamed_beside_a_namesake: (
        "bindings against units",
        "csrc/forward.h:7",
        "csrc/combine.cpp:3 defines combine_all with its parameters, which nothing declares",
    ),
    fewer_parameters: (
        "bindings against units",
        "csrc/forward.h:7",
        "csrc/combine.cpp:3 defines it with (const float* partial, float* out)",
    ),
    listed_missing: ("listed sources", "setup.py:8", "csrc/backward.cu: no such file"),
    listed_untracked: (
        "listed sources",
        "setup.py:8",
        "csrc/backward.cu, which is on this machine",
    ),
    module_name: ("module name", "csrc/bindings.cpp:12", "flash_attention_science"),
    imported_by_another_name: (
        "module name",
        "flash/api.py:1",
        "imports flash._kernels, but setup.py:7 builds flash._C",
    ),
    imported_beside_it_by_another_name: ("module name", "flash/api.py:1", "flash._kernels"),
    imported_with_its_package: ("module name", "flash/api.py:2", "imports flash._kernels"),
    imported_from_no_package: (
        "module name",
        "flash/api.py:1",
        "imports flash_attention_cuda, but setup.py:7 builds flash_cuda",
    ),
    path_gone: ("project settings", "[tool.flashbench.project] path", "python does not exist"),
    module_gone: ("project settings", "callable", "no module flash/interface.py"),
    package_gone: ("project settings", "callable", "no module quick/api.py"),
    attribute_gone: ("project settings", "callable", "flash/api.py has no forward"),
    script_gone: ("project settings", "build", "setup2.py does not exist"),
    sources_gone: ("project settings", "[tool.flashbench.project] sources", "cuda does not exist"),
    callable_gone: ("project settings", "[tool.flashbench.project] callable", "flash.interface"),
    unknown_setting: ("project settings", "pyproject.toml", "headers: is no setting"),
    build_tool_that_is_a_placeholder: ("project settings", "build", "{python} is not on PATH"),
    build_tool: ("project settings", "[tool.flashbench.project] build", "no-such-make"),
}
DEFECTS |= FILES | READS
