"""Includes that nothing satisfies, planted in the kernel project."""

from collections.abc import Callable

from preflight.planted_builds import by_cmake
from revisions.repository import Repository


def _include(project: Repository, line: str) -> None:
    project.edit("csrc/forward.cu", '#include "forward.h"', f'#include "forward.h"\n{line}')


def folder_never_committed(project: Repository) -> None:
    _include(project, '#include "tiles/copy.h"')
    project.commit("Include a folder of another machine")


def _computed(project: Repository, *chips: str) -> None:
    """A header for each chip, chosen by -DCHIP."""
    project.write(
        "csrc/chip.h",
        "#pragma once\n#define QUOTE(text) #text\n#define HEADER_OF(name) QUOTE(chip/name.h)\n"
        "#include HEADER_OF(CHIP)\n",
    )
    for chip in ("sm80", "sm90"):
        project.write(f"csrc/chip/{chip}.h", "#pragma once\n")
    flags = ", ".join(f'"-DCHIP={chip}"' for chip in chips)
    project.edit("setup.py", "sources=", f"extra_compile_args=[{flags}], sources=")
    _include(project, '#include "chip.h"')
    project.commit("A header for each chip")


def one_of_a_computed_include(project: Repository) -> None:
    _computed(project, "sm90")
    (project.root / "csrc/chip/sm90.h").unlink()


def all_of_a_computed_include(project: Repository) -> None:
    _computed(project, "sm90")
    project.git("rm", "-q", "-r", "csrc/chip")
    project.commit("Tidy up")


def _folders(name: str, folders: str, line: str, *headers: str) -> Callable[[Repository], None]:
    """Include directories of setup.py, and an include of forward.cu."""

    def plant(project: Repository) -> None:
        for header in headers:
            project.write(header, "#pragma once\n")
        project.edit("setup.py", "sources=", f"include_dirs={folders}, sources=")
        _include(project, line)
        project.commit("Include from a folder")

    plant.__name__ = name
    return plant


def own_folder_of_a_known_name(project: Repository) -> None:
    """The project itself is what others know by this folder."""
    project.write("CMakeLists.txt", "project(spdlog)\ninclude_directories(include)\n")
    project.write("include/spdlog/details/os.h", "#pragma once\n")
    project.write("include/spdlog/logger.h", "#pragma once\n")
    _include(project, "#include <spdlog/details/os.h>")
    project.commit("Log")
    project.git("mv", "include/spdlog/details/os.h", "include/spdlog/os.h")
    project.commit("Move a header")


def _unreached(name: str, file: str, text: str, new: str) -> Callable[[Repository], None]:
    """Take include/ from the include directories, or write another folder that is not there."""

    def plant(project: Repository) -> None:
        project.write("include/shapes.h", "#pragma once\n")
        _include(project, '#include "shapes.h"')
        if file == "setup.py":
            project.edit(file, "sources=", f"{text}sources=")
        else:
            by_cmake(project)
            project.write(file, text)
        project.commit("Include from a folder")
        old = next(one for one in (_OF_SETUP, _OF_CMAKE, _OF_INTERFACE, _OF_MAKE) if one in text)
        project.edit(file, old, new)
        project.commit("Change it")

    plant.__name__ = name
    return plant


_OF_SETUP = 'include_dirs=[pybind11.get_include(), "include"], '
_OF_CMAKE = "target_include_directories(_C PRIVATE include)\n"
_OF_INTERFACE = (
    "target_include_directories(own INTERFACE\n"
    "  $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>)\n"
)
_OF_MAKE = " -Iinclude"
_UNITS = "csrc/bindings.cpp csrc/forward.cu csrc/combine.cpp"
_LISTS = f"find_package(pybind11 REQUIRED)\npybind11_add_module(_C {_UNITS})\n"
_INTERFACE = f"{_LISTS}add_library(own INTERFACE)\ntarget_link_libraries(_C PRIVATE own)\n"
_MAKES = f"flash/_C.so: {_UNITS}\n\tnvcc -O3{_OF_MAKE} -shared $^ -o $@\n"
_NOT_REACHED = '"shapes.h": include has it, which is no include directory of the build'
_UNREACHED: dict[Callable[[Repository], None], tuple[str, str, str]] = {
    _unreached(name, file, text, ""): ("missing headers", "csrc/forward.cu:2", _NOT_REACHED)
    for name, file, text in (
        ("no_include_dirs", "setup.py", _OF_SETUP),
        ("no_folder_of_a_target", "CMakeLists.txt", _LISTS + _OF_CMAKE),
        ("no_folder_of_an_interface", "CMakeLists.txt", _INTERFACE + _OF_INTERFACE),
        ("no_flag_of_make", "Makefile", _MAKES),
    )
} | {
    _unreached(name, file, text, new): (
        "listed sources",
        file,
        "includes from inc: no such folder; csrc/forward.cu:2 needs shapes.h of include",
    )
    for name, file, text, new in (
        ("wrong_include_dirs", "setup.py", _OF_SETUP, _OF_SETUP.replace('include"]', 'inc"]')),
        (
            "wrong_folder_of_a_target",
            "CMakeLists.txt",
            _LISTS + _OF_CMAKE,
            _OF_CMAKE.replace(" include)", " inc)"),
        ),
        ("wrong_flag_of_make", "Makefile", _MAKES, " -Iinc"),
    )
}

_TILES = '["deps/tiles/include", "deps/tiles/tools/include"]'
_never = _folders("folder_never_there", _TILES, "#include <tiles/copy.h>")
_mistyped = _folders("folder_mistyped", '["csrc/tile_s"]', '#include "copy.h"', "csrc/tiles/copy.h")
INCLUDES: dict[Callable[[Repository], None], tuple[str, str, str]] = _UNREACHED | {
    folder_never_committed: ("missing headers", "csrc/forward.cu:2", '"tiles/copy.h": no such'),
    _never: (
        "listed sources",
        "setup.py:8",
        "includes from deps/tiles/include: no such folder; csrc/forward.cu:2 needs tiles/copy.h",
    ),
    _mistyped: (
        "listed sources",
        "setup.py:8",
        "no such folder; csrc/forward.cu:2 needs copy.h of csrc/tiles",
    ),
    own_folder_of_a_known_name: (
        "missing headers",
        "csrc/forward.cu:2",
        '"spdlog/details/os.h": no such file, removed by commit',
    ),
    one_of_a_computed_include: (
        "missing headers",
        "csrc/chip.h:4",
        "HEADER_OF(CHIP) is chip/*.h: no such file here; git had csrc/chip/sm90.h",
    ),
    all_of_a_computed_include: (
        "missing headers",
        "csrc/chip.h:4",
        "no such file here; git had csrc/chip/sm80.h, csrc/chip/sm90.h",
    ),
}


def computed_and_there(project: Repository) -> None:
    """The header of a chip that no build asks for was removed."""
    _computed(project, "sm90")
    project.git("rm", "-q", "csrc/chip/sm80.h")


def of_other_projects(project: Repository) -> None:
    """Known by their folder, or asked for under a condition."""
    _include(
        project,
        '#include "spdlog/spdlog.h"\n#include "google/protobuf/message.h"\n'
        '#ifdef USE_NPU\n#include "npu_kit/stream.h"\n#endif',
    )


def by_a_script_that_fetches(project: Repository) -> None:
    _never(project)
    clone = 'subprocess.run(["git", "clone", "-q", TILES, "deps/tiles"])\n'
    project.edit("setup.py", "setup(", f"{clone}\nsetup(")


FOUND_ELSEWHERE: list[Callable[[Repository], None]] = [
    computed_and_there,
    of_other_projects,
    by_a_script_that_fetches,
]
