"""Defects of build files, imports and settings, planted in the kernel project."""

from revisions.repository import Repository


def module_of_cmake(project: Repository) -> None:
    cmake = (
        "add_library(kernels OBJECT forward.cu)\npybind11_add_module(_C bindings.cpp combine.cpp)\n"
    )
    project.write("csrc/CMakeLists.txt", cmake)
    project.write("setup.py", 'subprocess.run(["cmake", "-S", ROOT / "csrc"])\n')
    module_name(project)


def unit_of_cmake(project: Repository) -> None:
    project.write(
        "csrc/CMakeLists.txt",
        "pybind11_add_module(_C bindings.cpp forward.cu combine.cpp backward.cu)\n",
    )
    project.write("setup.py", 'subprocess.run(["cmake", "-S", ROOT / "csrc"])\n')
    project.commit("List a unit that was never written, for CMake")


def not_compiled(project: Repository) -> None:
    project.edit("setup.py", ', "csrc/combine.cpp"', "")
    project.commit("Forget a unit")


def listed_by_a_comprehension(project: Repository) -> None:
    names = '["bindings.cpp", "forward.cu"]'
    _list(project, f'[os.path.join("csrc", f) for f in {names}]')
    project.commit("Forget a unit of a comprehension")


def missing_from_a_comprehension(project: Repository) -> None:
    names = '("bindings", "forward", "combine", "backward")'
    _list(project, f'[f"csrc/{{one}}.cpp" for one in {names}]')
    project.git("mv", "csrc/forward.cu", "csrc/forward.cpp")
    project.commit("Name a unit that was never written")


def _list(project: Repository, sources: str) -> None:
    text = '["csrc/bindings.cpp", "csrc/forward.cu", "csrc/combine.cpp"]'
    project.edit("setup.py", text, sources)


CMAKE = """\
file(GLOB kernels ${CMAKE_CURRENT_SOURCE_DIR}/sm80/*.cu)
foreach(dtype fp16 bf16)
  list(APPEND kernels ${CMAKE_CURRENT_SOURCE_DIR}/sm90/${dtype}.cu)
endforeach()
pybind11_add_module(_C bindings.cpp forward.cu combine.cpp ${kernels})
"""


def by_cmake(project: Repository) -> None:
    """Without setup.py, and with no CMakeLists.txt yet."""
    project.git("rm", "-q", "setup.py")
    project.edit("pyproject.toml", '"csrc", "setup.py"', '"csrc"')
    project.edit("pyproject.toml", '"python", "setup.py", "build_ext", "--inplace"', '"python"')


def globbed(project: Repository) -> None:
    """A project of CMake that lists units, globs some and computes the names of others."""
    by_cmake(project)
    project.write("csrc/CMakeLists.txt", CMAKE)
    for name in ("sm80/fp16", "sm80/bf16", "sm90/fp16", "sm90/bf16"):
        function = name.replace("/", "_")
        project.write(f"csrc/{name}.cu", f"namespace flash {{\nvoid {function}() {{}}\n}}\n")
        declared = "void combine(const"
        project.edit("csrc/forward.h", declared, f"void {function}();\n{declared}")
        loop = "    forward_kernel<T, HeadDim><<<"
        project.edit("csrc/forward.cu", loop, f"    {function}();\n{loop}")
    project.commit("Build with CMake")


def left_out_beside_a_glob(project: Repository) -> None:
    globbed(project)
    project.edit("csrc/CMakeLists.txt", " combine.cpp", "")
    project.commit("Forget a unit beside a glob")


def removed_from_a_glob(project: Repository) -> None:
    globbed(project)
    project.git("rm", "-q", "csrc/sm80/bf16.cu")
    project.commit("Remove a unit that a pattern found")


def deleted_from_a_glob(project: Repository) -> None:
    globbed(project)
    (project.root / "csrc/sm80/bf16.cu").unlink()


def other_namespace(project: Repository) -> None:
    project.edit("csrc/combine.cpp", "flash::combine", "combine")
    project.commit("Define it in no namespace")


def other_parameters(project: Repository) -> None:
    project.edit("csrc/combine.cpp", "const float* partial, float*", "float* partial, float*")
    project.commit("Change the parameters of the definition alone")


def renamed_below_a_header(project: Repository) -> None:
    """The function that a header's inline function calls."""
    call = "flash::combine(nullptr, nullptr, 0);"
    text = f'#pragma once\n#include "forward.h"\ninline void finish() {{ {call} }}\n'
    project.write("csrc/finish.h", text)
    project.edit("csrc/bindings.cpp", call, "finish();")
    project.edit("csrc/bindings.cpp", '"forward.h"', '"finish.h"')
    project.edit("csrc/combine.cpp", "flash::combine", "flash::combine_all")
    project.commit("Rename the definition alone")


def renamed_beside_a_namesake(project: Repository) -> None:
    """combine(float*, int) is another function, which the header declares, too."""
    declared = "void combine(const float* partial, float* out, int count);"
    project.edit("csrc/forward.h", declared, f"{declared}\nvoid combine(float* out, int count);")
    text = '#include "forward.h"\nvoid flash::combine(float* out, int count) { out[count] = 0; }\n'
    project.write("csrc/dispatch.cu", text)
    project.edit("setup.py", '"csrc/forward.cu"', '"csrc/forward.cu", "csrc/dispatch.cu"')
    project.commit("Overload")
    project.edit("csrc/combine.cpp", "flash::combine", "flash::combine_all")
    project.commit("Rename the definition alone")


def fewer_parameters(project: Repository) -> None:
    project.edit("csrc/combine.cpp", ", int count", "")
    project.edit("csrc/combine.cpp", "count;", "8;")
    project.commit("Drop a parameter of the definition alone")


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


def imported_by_another_name(project: Repository) -> None:
    _import(project, "from flash import _kernels\n\n\n")


def imported_beside_it_by_another_name(project: Repository) -> None:
    _import(project, "from . import _kernels as kernels\n\n\n")


def imported_with_its_package(project: Repository) -> None:
    _import(project, "import torch\nimport flash._kernels\n\n\n")


def imported_from_no_package(project: Repository) -> None:
    project.edit("setup.py", "flash._C", "flash_cuda")
    project.edit("csrc/bindings.cpp", "PYBIND11_MODULE(_C", "PYBIND11_MODULE(flash_cuda")
    _import(project, "import flash_attention_cuda\n\n\n")


def _import(project: Repository, line: str) -> None:
    project.edit("flash/api.py", "def attention", f"{line}def attention")
    project.commit("Import what nobody builds")


def path_gone(project: Repository) -> None:
    project.edit("pyproject.toml", 'callable = "flash', 'path = "python"\ncallable = "flash')
    project.commit("Name a folder that nobody makes")


def module_gone(project: Repository) -> None:
    project.edit("pyproject.toml", "flash.api:attention", "flash.interface:attention")
    project.commit("Name a module that nobody builds")


def package_gone(project: Repository) -> None:
    project.edit("pyproject.toml", "flash.api:attention", "quick.api:attention")
    project.commit("Name a package that is not there")


def attribute_gone(project: Repository) -> None:
    project.edit("pyproject.toml", "flash.api:attention", "flash.api:forward")
    project.commit("Name a function that is not there")


def script_gone(project: Repository) -> None:
    project.edit("pyproject.toml", '"setup.py", "build_ext"', '"setup2.py", "build_ext"')
    project.commit("Build by a script that is not there")


def sources_gone(project: Repository) -> None:
    project.edit("pyproject.toml", '"csrc", "setup.py"', '"csrc", "cuda", "setup.py"')
    project.commit("Name a folder that is not there")


def callable_gone(project: Repository) -> None:
    project.edit("pyproject.toml", "flash.api:attention", "flash.interface:attention")
    build = 'build = ["python", "setup.py", "build_ext", "--inplace"]'
    project.edit("pyproject.toml", build, "build = []")
    project.commit("Name a module that is not there")


def build_tool_that_is_a_placeholder(project: Repository) -> None:
    project.edit("pyproject.toml", '"python", "setup.py"', '"{python}", "setup.py"')
    project.commit("Build by a placeholder")


def build_tool(project: Repository) -> None:
    project.edit(
        "pyproject.toml", '["python", "setup.py", "build_ext", "--inplace"]', '["no-such-make"]'
    )
    project.commit("Build with a tool that is not here")


def unknown_setting(project: Repository) -> None:
    project.edit("pyproject.toml", "sources = ", "headers = ")
    project.commit("Write a setting that there is not")
