"""Links to nowhere, lost folders, files that build scripts read, names that Python calls."""

from collections.abc import Callable

from preflight.planted_builds import by_cmake
from revisions.repository import Repository

Plant = Callable[[Repository], None]
_EXTENSION = "from torch.utils.cpp_extension import CUDAExtension\n"
_CMAKE = (
    "include(cmake/units.cmake)\ninclude(cmake/flags.cmake)\npybind11_add_module(_C ${UNITS})\n"
)
_UNITS = "set(UNITS csrc/bindings.cpp csrc/forward.cu\n    csrc/combine.cpp)\n"
_LIBRARY = 'extern "C" void run(const float* q) {}\n'
_CTYPES = (
    "import ctypes\nimport os\nLIB = ctypes.CDLL(os.path.join(os.path.dirname(__file__), {}))\n"
)


def _linked(name: str, *, build: str = "") -> Plant:
    """Replace a file by a link of another machine."""

    def plant(project: Repository) -> None:
        if build:
            project.edit(
                "setup.py", '["csrc/bindings.cpp", "csrc/forward.cu", "csrc/combine.cpp"]', build
            )
            project.commit("Compile by a pattern")
        (project.root / name).unlink()
        (project.root / name).symlink_to("/opt/kernels/shared")
        project.commit("Share it")

    plant.__name__ = f"link_{name.rpartition('/')[2]}"
    return plant


def _script(name: str, text: str) -> Plant:
    """Let setup.py read a file that a commit then removes."""

    def plant(project: Repository) -> None:
        file = "tools/gen.py" if "gen.py" in text else "tools/flags.txt"
        project.write(file, "0\n")
        project.edit("setup.py", _EXTENSION, f"{_EXTENSION}import os\nimport pathlib\n{text}\n")
        project.commit("Read the flags")
        project.git("rm", "-q", file)
        project.commit("Remove what it reads")

    plant.__name__ = name
    return plant


def _api(name: str, text: str) -> Plant:
    def plant(project: Repository) -> None:
        api = (project.root / "flash/api.py").read_text()
        project.write("flash/api.py", f"{text}\n\n{api}")
        project.commit("Call")

    plant.__name__ = name
    return plant


def _library(name: str, file: str, text: str, unit: str = _LIBRARY) -> Plant:
    """Let make build flash/libflash.so, too, and ctypes load it."""

    def plant(project: Repository) -> None:
        project.write("csrc/abi.cpp", unit)
        make = "flash/libflash.so: csrc/abi.o\n\tg++ -shared -o $@ $^\n"
        project.write("Makefile", f"{make}%.o: %.cpp\n\tg++ -c $< -o $@\n")
        project.edit("setup.py", '"csrc/combine.cpp"', '"csrc/combine.cpp", "csrc/abi.cpp"')
        _api(name, _CTYPES.format(f"'{file}'") + text)(project)

    plant.__name__ = name
    return plant


def operator_of_torch(project: Repository) -> None:
    library = 'TORCH_LIBRARY(flash_ops, m) { m.def("run(Tensor q) -> ()"); }'
    project.edit("csrc/bindings.cpp", "PYBIND11", f"{library}\n\nPYBIND11")
    uses = "import torch\nONE = torch.ops.flash_ops.run\nALL = torch.ops.flash_ops.run_all"
    _api("", uses)(project)


def by_an_included_list(project: Repository) -> None:
    """A CMakeLists.txt whose units stand in an included file."""
    by_cmake(project)
    project.write("CMakeLists.txt", _CMAKE)
    project.write("cmake/units.cmake", _UNITS)
    project.write("cmake/flags.cmake", "add_compile_options(-O3)\n")
    project.commit("Build with CMake")


def _cmake(name: str, file: str, old: str, new: str) -> Plant:
    def plant(project: Repository) -> None:
        by_an_included_list(project)
        project.edit(file, old, new)
        project.commit("Edit")

    plant.__name__ = name
    return plant


def _gone(name: str, what: str) -> Plant:
    def plant(project: Repository) -> None:
        by_an_included_list(project)
        project.git("rm", "-rq", what)
        project.commit("Tidy up")

    plant.__name__ = name
    return plant


def launcher_gone(project: Repository) -> None:
    """A script outside of the folder, by which the compiler is started."""
    by_cmake(project)
    project.write("tools/launch.py", "print(1)\n")
    project.write("CMakeLists.txt", "add_subdirectory(csrc)\n")
    launcher = "${CMAKE_CURRENT_SOURCE_DIR}/../tools/launch.py"
    project.write(
        "csrc/CMakeLists.txt",
        "pybind11_add_module(_C bindings.cpp forward.cu combine.cpp)\n"
        f"set(launcher python ${{CCACHE}}\n    {launcher})\n"
        'set_target_properties(_C PROPERTIES CUDA_COMPILER_LAUNCHER "${launcher}")\n',
    )
    project.commit("Launch the compiler by a script")
    project.git("rm", "-q", "tools/launch.py")
    project.commit("Tidy up")


def ignored_include_folder(project: Repository) -> None:
    project.write(".gitignore", "deps/\n")
    project.edit("setup.py", "sources=", 'include_dirs=["deps/tiles/include"], sources=')
    project.edit("csrc/forward.cu", "<cuda_bf16.h>", "<cuda_bf16.h>\n#include <tiles/tile.h>")
    project.commit("Include a header of a folder that nobody else has")
    project.write("deps/tiles/include/tiles/tile.h", "#pragma once\n")


def folder_of_headers(project: Repository) -> None:
    for name in ("load", "store"):
        project.write(f"csrc/tile/{name}.h", "#pragma once\n")
    project.edit(
        "csrc/forward.h",
        '"config.h"',
        '"config.h"\n#include "tile/load.h"\n#include "tile/store.h"',
    )
    project.commit("Move tiles")
    project.git("rm", "-rq", "csrc/tile")
    project.commit("Tidy up")


def folder_of_headers_and_units(project: Repository) -> None:
    """A folder of units, listed by name, and of headers."""
    by_an_included_list(project)
    project.write("csrc/tile/tile.cpp", '#include "tile.h"\n')
    project.write("csrc/tile/tile.h", "#pragma once\n")
    project.edit("csrc/forward.h", '"config.h"', '"config.h"\n#include "tile/tile.h"')
    project.edit("cmake/units.cmake", "csrc/combine.cpp", "csrc/combine.cpp csrc/tile/tile.cpp")
    project.commit("Move tiles")
    project.git("rm", "-rq", "csrc/tile")
    project.commit("Tidy up")


def angle_brackets(project: Repository) -> None:
    project.edit("setup.py", "sources=", 'include_dirs=["csrc"], sources=')
    project.edit("csrc/forward.h", '"config.h"', "<config.h>")
    project.commit("Include by angle brackets")
    project.git("rm", "-q", "csrc/config.h")
    project.commit("Remove a header that is still included")


def one_level_of_a_pattern(project: Repository) -> None:
    names = '["csrc/bindings.cpp", "csrc/forward.cu", "csrc/combine.cpp"]'
    project.edit("setup.py", names, 'glob.glob("csrc/*.cpp") + ["csrc/forward.cu"]')
    project.edit("setup.py", _EXTENSION, f"{_EXTENSION}import glob\n")
    (project.root / "csrc/host").mkdir()
    project.git("mv", "csrc/combine.cpp", "csrc/host/combine.cpp")
    project.edit("csrc/host/combine.cpp", '"forward.h"', '"../forward.h"')
    project.commit("Move a unit where the pattern does not look")


def beside_a_macro_that_quotes(project: Repository) -> None:
    """A function that no macro binds by `#name`, though one quotes other words."""
    macro = "#define CHECK(x) require(x, #x)\nstatic void backward(int n) { CHECK(n > 0); }\n"
    project.edit("csrc/bindings.cpp", "static void", f"{macro}static void")
    _api("", "from flash._C import forward, backward")(project)


_HELPER = (
    "HERE = pathlib.Path(__file__).resolve().parent\ndef _read(path):\n"
    "    return pathlib.Path(path).read_text()\n_read(HERE / 'setup.py')\n"
)
_NOWHERE = "a link to /opt/kernels/shared, which does not exist"
READS: dict[Plant, tuple[str, str, str]] = {
    _linked("csrc/config.h"): ("missing headers", "csrc/forward.h:2", _NOWHERE),
    _linked("csrc/forward.cu"): ("listed sources", "setup.py:8", _NOWHERE),
    _linked("csrc/combine.cpp", build='__import__("glob").glob("csrc/*.c*")'): (
        "files in git",
        "setup.py:8",
        f"compiles csrc/combine.cpp, {_NOWHERE}",
    ),
    _linked("setup.py"): ("project settings", "pyproject.toml", _NOWHERE),
    _linked("pyproject.toml"): ("project settings", "pyproject.toml", _NOWHERE),
    operator_of_torch: (
        "called names",
        "flash/api.py:3",
        "calls torch.ops.flash_ops.run_all: no source registers it",
    ),
    _script("run", "import subprocess, sys\nsubprocess.run([sys.executable, 'tools/gen.py'])"): (
        "files in git",
        "setup.py:6",
        "needs tools: no such folder, removed by",
    ),
    _script("opened", 'with open("tools/flags.txt") as file:\n    FLAGS = file.read()'): (
        "files in git",
        "setup.py:5",
        "needs tools: no such folder, removed by commit",
    ),
    _script(
        "read_by_path", 'pathlib.Path(__file__).parent.joinpath("tools/flags.txt").read_text()'
    ): (
        "files in git",
        "setup.py:5",
        "needs tools: no such folder, removed by commit",
    ),
    _script("read_by_helper", f"{_HELPER}_read(HERE / 'tools/flags.txt')"): (
        "files in git",
        "setup.py:9",
        "needs tools: no such folder, removed by commit",
    ),
    _script("read_by_helper_misspelt", f"{_HELPER}_read(path=HERE / 'csrc/forwrad.h')"): (
        "files in git",
        "setup.py:9",
        "needs csrc/forwrad.h: no such file, never in git",
    ),
    _api("attribute", "from flash import _C\nbackward = _C.backward"): (
        "called names",
        "flash/api.py:2",
        "takes backward from _C: no unit binds that name",
    ),
    _api("imported_name", "from flash._C import forward, backward"): (
        "called names",
        "flash/api.py:1",
        "takes backward from _C: no unit binds that name",
    ),
    beside_a_macro_that_quotes: (
        "called names",
        "flash/api.py:1",
        "takes backward from _C: no unit binds that name",
    ),
    _library("symbol", "libflash.so", "LIB.backward()"): (
        "called names",
        "flash/api.py:4",
        "calls backward of libflash.so: no unit defines it",
    ),
    _library("library_misspelt", "libflsh.so", ""): (
        "loaded libraries",
        "flash/api.py:3",
        "loads libflsh.so, which no build file makes; they make flash._C, libflash.so",
    ),
    _gone("included_unit_gone", "csrc/combine.cpp"): (
        "listed sources",
        "cmake/units.cmake:2",
        "lists csrc/combine.cpp: no such file, removed by commit",
    ),
    _gone("included_list_gone", "cmake/units.cmake"): (
        "files in git",
        "CMakeLists.txt:1",
        "needs cmake/units.cmake: no such file",
    ),
    _gone("folder_gone", "cmake"): (
        "files in git",
        "CMakeLists.txt:1",
        "needs cmake: no such folder",
    ),
    _cmake(
        "unit_never_written", "cmake/units.cmake", "combine.cpp", "combine.cpp csrc/split.cpp"
    ): (
        "listed sources",
        "cmake/units.cmake:2",
        "lists csrc/split.cpp: no such file, never in git",
    ),
    _cmake("unclosed", "cmake/units.cmake", ")", ""): (
        "listed sources",
        "cmake/units.cmake:1",
        "CMake cannot read it: the ( of set is not closed",
    ),
    _cmake(
        "without_endif", "CMakeLists.txt", "pybind11", "if(APPLE)\nendif()\nif(UNIX)\npybind11"
    ): (
        "listed sources",
        "CMakeLists.txt:5",
        "CMake cannot read it: if has no endif",
    ),
    launcher_gone: (
        "files in git",
        "csrc/CMakeLists.txt:2",
        "needs tools: no such folder, removed by commit",
    ),
    ignored_include_folder: (
        "headers in git",
        "csrc/forward.cu:3",
        "deps/tiles/include/tiles/tile.h is on this machine alone: git ignores it",
    ),
    folder_of_headers: (
        "missing headers",
        "csrc/forward.h:3",
        "with all of csrc/tile",
    ),
    folder_of_headers_and_units: (
        "listed sources",
        "cmake/units.cmake",
        "compiles units of csrc/tile: no such folder, removed by commit",
    ),
    angle_brackets: ("missing headers", "csrc/forward.h:2", "no such file, removed by commit"),
    one_level_of_a_pattern: (
        "bindings against units",
        "csrc/forward.h:7",
        "csrc/host/combine.cpp defines it, which the build does not compile",
    ),
}
