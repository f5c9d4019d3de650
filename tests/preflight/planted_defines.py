"""Macros and folders of build files, and units left out that only a compiler can judge."""

from collections.abc import Callable

from revisions.repository import Repository

Plant = Callable[[Repository], None]
_UNITS = "csrc/bindings.cpp csrc/forward.cu csrc/combine.cpp"
_SOURCES = 'sources=["csrc/bindings.cpp", "csrc/forward.cu", "csrc/combine.cpp"],'


def _flags(project: Repository, given: str) -> None:
    project.edit("setup.py", _SOURCES, f"{_SOURCES}\n            {given},")


def constant_rewritten_by_a_flag(project: Repository) -> None:
    _flags(project, 'extra_compile_args={"nvcc": ["-O3", "-DWARP_SIZE=32"]}')
    project.commit("Define the constant for nvcc")


def constant_rewritten_by_define_macros(project: Repository) -> None:
    _flags(project, 'define_macros=[("WARP_SIZE", "32")]')
    project.commit("Define the constant for all compilers")


def folder_of_setup_gone(project: Repository) -> None:
    _flags(project, 'include_dirs=["csrc", "include/flash"]')
    project.commit("Include from a folder that is not there")


def folder_of_cmake_gone(project: Repository) -> None:
    text = f"include_directories(csrc/headers)\npybind11_add_module(_C {_UNITS})\n"
    project.write("CMakeLists.txt", text)
    project.commit("Include from a folder that is not there")


ERRORS: dict[Plant, tuple[str, str, str]] = {
    plant: ("macros of the build", where, "-DWARP_SIZE=32 rewrites the constant WARP_SIZE of")
    for plant, where in (
        (constant_rewritten_by_a_flag, "setup.py:9"),
        (constant_rewritten_by_define_macros, "setup.py:9"),
    )
}
WARNINGS: dict[Plant, tuple[str, str, str]] = {
    folder_of_setup_gone: ("listed sources", "setup.py:9", "includes from include/flash"),
    folder_of_cmake_gone: ("listed sources", "CMakeLists.txt:1", "includes from csrc/headers"),
}


def guarded_macro(project: Repository) -> None:
    _flags(project, 'extra_compile_args=["-DWARP_SIZE=32"]')
    text = "#ifndef WARP_SIZE\nconstexpr int WARP_SIZE = 32;\n#endif\n"
    project.edit("csrc/config.h", "constexpr int WARP_SIZE = 32;\n", text)


def folders_that_are_there(project: Repository) -> None:
    _flags(project, 'include_dirs=["csrc", "/opt/cuda/include", *more()]')
    text = "include_directories(csrc ${CMAKE_CURRENT_SOURCE_DIR}/csrc ${X}/y build/gen)\n"
    project.write("CMakeLists.txt", text)


HEALTHY_DEFINES = [guarded_macro, folders_that_are_there]


def member_left_out(project: Repository) -> str:
    project.edit(
        "csrc/forward.h", "void combine", "struct Plan { void start(int rows); };\nvoid combine"
    )
    project.write(
        "csrc/plan.cpp", '#include "forward.h"\nvoid flash::Plan::start(int rows) { rows += 1; }\n'
    )
    use = "flash::Plan plan; plan.start(1); flash::combine("
    project.edit("csrc/bindings.cpp", "flash::combine(", use)
    return "csrc/plan.cpp defines start, which compiled files use, and the build leaves it out"


def _dispatched(project: Repository, call: str) -> str:
    line = "template void launch<at::BFloat16, 64>(const at::BFloat16*, at::BFloat16*, int);\n"
    project.edit("csrc/forward.cu", line, "")
    project.write("csrc/forward_bf16.cu", f'#include "forward.h"\nnamespace flash {{\n{line}}}\n')
    old = "flash::launch<c10::BFloat16, 64>(q.data_ptr<c10::BFloat16>(), nullptr, 1)"
    project.edit("csrc/bindings.cpp", old, call)
    return "csrc/forward_bf16.cu defines launch, which compiled files use"


def dispatched_by_a_macro(project: Repository) -> str:
    body = "flash::launch<scalar_t, 64>(q.data_ptr<scalar_t>(), nullptr, 1);"
    return _dispatched(
        project, f'AT_DISPATCH_REDUCED_FLOATING_TYPES(q.scalar_type(), "f", [&] {{ {body} }})'
    )


def arguments_deduced(project: Repository) -> str:
    return _dispatched(project, "flash::launch(q.data_ptr<c10::BFloat16>(), out, 1)")


# Plants that return what is left unchecked.
UNDECIDED = [member_left_out, dispatched_by_a_macro, arguments_deduced]
