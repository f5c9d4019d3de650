"""Ways to write the kernel project that build, so that no check may call them wrong."""

from collections.abc import Callable

from preflight.planted import BF16, body_in_a_header
from preflight.planted_builds import by_cmake
from revisions.repository import Repository


def instantiated_by_a_macro(project: Repository) -> None:
    """The macro has several lines, the name not on the first."""
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


def unit_of_units(project: Repository) -> None:
    project.write("csrc/all.cpp", '#include "bindings.cpp"\n#include "combine.cpp"\n')
    project.edit("setup.py", '"csrc/bindings.cpp"', '"csrc/all.cpp"')
    project.edit("setup.py", ', "csrc/combine.cpp"', "")


SPECIAL = """
template <typename T> void scale(T* x);
template <> void scale<at::Half>(at::Half* x);
template <typename T> T get(int place);
"""


def specialised_in_two_files(project: Repository) -> None:
    project.edit(
        "csrc/forward.h", "template <typename T, int", f"{SPECIAL}template <typename T, int"
    )
    for unit, type_name in (("forward.cu", "Half"), ("combine.cpp", "BFloat16")):
        text = (project.root / "csrc" / unit).read_text()
        body = (
            f"template <>\nvoid flash::scale<at::{type_name}>(at::{type_name}* x) {{ *x *= 2; }}\n"
        )
        project.write(f"csrc/{unit}", text + body)
    calls = "flash::scale<at::Half>(0); flash::scale<c10::BFloat16>(0);"
    project.edit("csrc/bindings.cpp", "flash::combine(", f"{calls} flash::combine(")


def body_in_a_file_of_another_kind(project: Repository) -> None:
    specialised_in_two_files(project)
    body = "template <typename T> void flash::scale(T* x) { *x += *x; }\n"
    project.write("csrc/scale.tpp", body)
    project.edit("csrc/bindings.cpp", "flash::combine(", "flash::scale<float>(0); flash::combine(")


def names_of_others(project: Repository) -> None:
    specialised_in_two_files(project)
    body = "template <> int flash::get<int>(int place) { return place; }\n"
    text = (project.root / "csrc/combine.cpp").read_text()
    project.write("csrc/combine.cpp", text + body)
    calls = "std::get<float>(pair); tuple.get<float>(0);"
    project.edit("csrc/bindings.cpp", "flash::combine(", f"{calls} flash::combine(")


def written_by_a_paste(project: Repository) -> None:
    project.write(
        "csrc/combine.cpp",
        "#define DEFINE(END) \\\n"
        "    void flash::comb##END(const float* partial, float* out, int count) {}\n"
        "DEFINE(ine)\n",
    )


def called_in_bindings(project: Repository, declaration: str, use: str) -> None:
    project.edit("csrc/bindings.cpp", "static void", f"{declaration}\nstatic void")
    project.edit("csrc/bindings.cpp", "flash::combine(", f"{use}; flash::combine(")


def function_of_a_library(project: Repository) -> None:
    called_in_bindings(project, 'extern "C" void sgemm_(const char*, int*);', "sgemm_(0, 0)")


def functions_of_a_library(project: Repository) -> None:
    called_in_bindings(
        project, 'extern "C" {\nint getpagesize(void);\n}\nint flash_pages();', "getpagesize()"
    )


def vendored_header(project: Repository) -> None:
    project.write("third_party/numa.h", "#pragma once\nint numa_available(void);\n")
    called_in_bindings(project, '#include "numa.h"', "numa_available()")


def object_with_arguments(project: Repository) -> None:
    called_in_bindings(
        project, "static thread_local std::vector<char> scratch(1024);", "scratch.clear()"
    )


def object_of_a_call(project: Repository) -> None:
    called_in_bindings(project, "flash::Cache cache(make_cache());", "use(cache)")


def unit_of_a_template(project: Repository) -> None:
    project.edit("setup.py", '"csrc/combine.cpp"', '*glob("csrc/*.cpp")')
    project.git("mv", "csrc/combine.cpp", "csrc/combine.cpp.j2")


def definition_with_attributes(project: Repository) -> None:
    project.edit(
        "csrc/combine.cpp",
        "float* out, int count) {",
        "float* out, int count) noexcept(true) {",
    )


MODULE = "#include <torch/extension.h>\nPYBIND11_MODULE({}, m) {{}}\n"


def extension_of_a_test(project: Repository) -> None:
    project.write("tests/ext.cpp", MODULE.format("test_ext"))
    project.write("tests/test_ext.py", "load(name='test_ext', sources=['tests/ext.cpp'])\n")


def second_module(project: Repository) -> None:
    by_cmake(project)
    project.write("csrc/second.cc", MODULE.format("_second"))
    project.write(
        "CMakeLists.txt",
        "pybind11_add_module(_C csrc/bindings.cpp csrc/forward.cu csrc/combine.cpp)\n"
        "add_library(_second SHARED csrc/second.cc)\n",
    )


def module_by_another_call(project: Repository) -> None:
    project.write("python/fast.c", "PyMODINIT_FUNC PyInit__fast(void) { return 0; }\n")
    project.write("CMakeLists.txt", 'set_target_properties(x PROPERTIES OUTPUT_NAME "tool")\n')


def alternative_headers(project: Repository) -> None:
    project.write("csrc/hip.h", "#pragma once\n#define BLOCK 64\n")
    project.write("csrc/cuda_constants.h", "#pragma once\nconstexpr int BLOCK = 32;\n")
    project.edit(
        "csrc/forward.h",
        "#pragma once",
        '#pragma once\n#ifdef USE_ROCM\n#include "hip.h"\n#else\n'
        '#include "cuda_constants.h"\n#endif',
    )


def alternative_definitions(project: Repository) -> None:
    project.edit(
        "csrc/config.h",
        "constexpr int",
        "#ifndef DOUBLE\n#define kEpsilon 1e-3f\n#else\nconst auto kEpsilon = 1e-3;\n#endif\n"
        "constexpr int",
    )


def macro_removed_elsewhere(project: Repository) -> None:
    project.write("csrc/no_warp.h", "#undef WARP_SIZE\n")
    project.edit(
        "csrc/combine.cpp", "#include", '#define WARP_SIZE 3\n#include "no_warp.h"\n#include'
    )


def same_parameters_by_other_names(project: Repository) -> None:
    project.edit(
        "csrc/forward.h",
        "combine(const float* partial, float* out, int count);",
        "combine(const float partial[], float* __restrict__ out, std::int32_t = 8);",
    )


def overloads(project: Repository) -> None:
    project.edit("csrc/forward.h", "void combine(", "void combine(double by);\nvoid combine(")
    project.edit(
        "csrc/combine.cpp",
        "void flash",
        "namespace flash { void combine(double) {} }\nvoid flash",
    )


def inline_namespace(project: Repository) -> None:
    project.edit("csrc/forward.h", "void combine(", "inline namespace v1 {\nvoid combine(")
    project.edit("csrc/forward.h", "int count);", "int count);\n}")


def namespace_of_two(project: Repository) -> None:
    project.edit("csrc/forward.h", "void combine(", "namespace detail {\nvoid combine(")
    project.edit("csrc/forward.h", "int count);", "int count);\n}")
    project.edit("csrc/bindings.cpp", "flash::combine", "flash::detail::combine")
    text = "void flash::combine"
    project.edit("csrc/combine.cpp", text, "namespace flash {\nvoid detail::combine")
    project.edit("csrc/combine.cpp", "partial[i];\n}", "partial[i];\n}\n}")


def instantiated_in_two_units(project: Repository) -> None:
    body_in_a_header(project)
    project.write("README.md", "A unit a dtype\n")


def instantiated_by_a_call(project: Repository) -> None:
    body_in_a_header(project)
    call = "void warm_up() { launch<at::BFloat16, 64>(nullptr, nullptr, 0); }\n"
    project.edit("csrc/forward_bf16.cu", BF16, call)


def imports_that_are_there(project: Repository) -> None:
    """What is built, written, bound by the package, optional, or written by a script."""
    project.write(
        "flash/__init__.py", "from . import _C\nfrom .api import attention\nx, y = 1, 2\n"
    )
    project.write("flash/sub/__init__.py", "def __getattr__(name): ...\n")
    project.write("flash/kernels.py", "from ._C import forward\nfrom . import sub, x, attention\n")
    project.write(
        "flash/more.py",
        "import flash._C, os.path, numpy_ext\nimport flash.kernels as k\n"
        "from flash import (\n    _C,  # built\n    y,\n)\nfrom flash.sub import anything\n"
        "from ._version import version\n"
        "try:\n    from . import _fast\nexcept ImportError:\n    _fast = None\n",
    )
    project.edit(
        "pyproject.toml", "[tool", '[tool.setuptools_scm]\nwrite_to = "_version.py"\n[tool'
    )


def callable_that_is_built(project: Repository) -> None:
    project.edit("pyproject.toml", "flash.api:attention", "flash._C:forward")


def callable_of_a_made_folder(project: Repository) -> None:
    project.edit("pyproject.toml", 'callable = "flash', 'path = "build/lib"\ncallable = "flash')
    project.edit("setup.py", "setup(", "# goes to build/lib\nsetup(")


HEALTHY: list[Callable[[Repository], None]] = [
    instantiated_by_a_macro,
    alias_of_a_type,
    constant_as_argument,
    instantiated_by_a_constant,
    arguments_deduced,
    same_parameters_by_other_names,
    overloads,
    inline_namespace,
    namespace_of_two,
    instantiated_by_a_call,
    imports_that_are_there,
    callable_that_is_built,
    callable_of_a_made_folder,
    instantiated_in_two_units,
    unit_of_units,
    written_by_a_paste,
    specialised_in_two_files,
    body_in_a_file_of_another_kind,
    names_of_others,
    function_of_a_library,
    functions_of_a_library,
    vendored_header,
    object_with_arguments,
    object_of_a_call,
    unit_of_a_template,
    definition_with_attributes,
    extension_of_a_test,
    second_module,
    module_by_another_call,
    alternative_headers,
    alternative_definitions,
    macro_removed_elsewhere,
]
