"""Ways to write the build files of the kernel project that work: no check may call them wrong."""

from collections.abc import Callable

from preflight.planted_builds import by_cmake, globbed
from revisions.repository import Repository


def sources_appended(project: Repository) -> None:
    project.edit(
        "setup.py",
        "setup(",
        'sources = ["csrc/bindings.cpp"]\nsources.append("csrc/forward.cu")\n'
        'sources += ["csrc/" + "combine.cpp"]\nsetup(',
    )
    project.edit(
        "setup.py",
        'sources=["csrc/bindings.cpp", "csrc/forward.cu", "csrc/combine.cpp"]',
        "sources=sources",
    )


def sources_joined(project: Repository) -> None:
    project.edit("setup.py", '"csrc/combine.cpp"', 'os.path.join("csrc", "combine.cpp")')


def sources_formatted(project: Repository) -> None:
    project.edit("setup.py", '"csrc/combine.cpp"', '*[f"csrc/{one}.cpp" for one in ("combine",)]')


def sources_of_a_directory(project: Repository) -> None:
    project.edit("setup.py", ', "csrc/combine.cpp"]', '] + os.listdir("csrc")')


def names_left_out(project: Repository) -> None:
    project.edit("setup.py", "setup(", 'EXCLUDE = ["csrc/legacy.cu", "csrc/old.cpp"]\n\nsetup(')


CMAKE = """\
#[[
add_library(old csrc/old.cu)
]]
add_custom_command(
  OUTPUT
    table.cc
  COMMAND python gen.py)
set(EXCLUDED csrc/legacy.cu)
pybind11_add_module(_C csrc/bindings.cpp csrc/forward.cu csrc/combine.cpp table.cc)
"""


def cmake_writes_a_unit(project: Repository) -> None:
    by_cmake(project)
    project.write("CMakeLists.txt", CMAKE)


def function_of_cmake(project: Repository) -> None:
    """Its paths are the caller's, but for one variable."""
    by_cmake(project)
    project.write("CMakeLists.txt", "include(cmake/read.cmake)\nread_version()\n" + CMAKE)
    project.write("csrc/version.h", "#define VERSION 1\n")
    project.write("cmake/notice.txt", "")
    project.write(
        "cmake/read.cmake",
        "function(read_version)\n"
        "  file(READ ${CMAKE_CURRENT_LIST_DIR}/csrc/version.h version)\n"
        "  file(READ ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/notice.txt notice)\n"
        "endfunction()\n",
    )


def make_writes_a_unit(project: Repository) -> None:
    project.write(
        "Makefile",
        "SRC = gen.cu\ngen.cu: gen.py\n\tpython gen.py > gen.cu\n\techo demo.cpp is built\n",
    )


def script_writes_a_unit(project: Repository) -> None:
    project.edit("setup.py", '"csrc/combine.cpp"', '"csrc/combine.cpp", "csrc/backend.cpp"')
    project.write("csrc/generate.py", 'open("csrc/backend.cpp", "w").write("int x;")\n')


def setup_in_a_folder(project: Repository) -> None:
    text = (project.root / "setup.py").read_text()
    project.write("python/setup.py", text.replace("csrc/", "../csrc/"))
    project.git("rm", "-q", "setup.py")
    project.edit("pyproject.toml", '"csrc", "setup.py"', '"csrc"')


def unit_named_by_a_script(project: Repository) -> None:
    """The build compiles what another script lists."""
    project.edit("setup.py", ', "csrc/combine.cpp"]', '] + json.load(open("units.json"))')
    project.write("units.json", '["csrc/combine.cpp"]')


def sources_of_a_function(project: Repository) -> None:
    project.edit(
        "setup.py",
        "setup(",
        "def units(folder, names):\n    return [str(Path(folder) / n) for n in names]\n\nsetup(",
    )
    project.edit(
        "setup.py",
        '["csrc/bindings.cpp", "csrc/forward.cu", "csrc/combine.cpp"]',
        'units("csrc", names=["bindings.cpp", "forward.cu", "combine.cpp"])',
    )


def globbed_by_cmake(project: Repository) -> None:
    globbed(project)
    project.write("csrc/idle.cpp", "int flash_idle() { return 0; }\n")


HEALTHY_BUILDS: list[Callable[[Repository], None]] = [
    sources_appended,
    sources_joined,
    sources_formatted,
    sources_of_a_directory,
    names_left_out,
    cmake_writes_a_unit,
    function_of_cmake,
    make_writes_a_unit,
    script_writes_a_unit,
    unit_named_by_a_script,
    sources_of_a_function,
    globbed_by_cmake,
]
