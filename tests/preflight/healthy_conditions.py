"""Preprocessor conditions under which nothing is missing or rewritten."""

from collections.abc import Callable

from revisions.repository import Repository


def _ahead(project: Repository, text: str) -> None:
    project.edit("csrc/forward.h", "#pragma once", f"#pragma once\n{text}")


def included_if_it_is_there(project: Repository) -> None:
    _ahead(
        project,
        '#if defined(__has_include) && __has_include("csrc/tracer.h")\n'
        '#include "csrc/tracer.h"\n#endif\n'
        '#if __has_include("tracer.h")\n#include "tracer.h"\n#endif',
    )


def left_out_for_good(project: Repository) -> None:
    """A missing header, a macro, a module and a call in code that no build compiles."""
    _ahead(
        project,
        '#if 0\n#include "tracer.h"\n#define WARP_SIZE 64\nisn\'t code\n#ifdef A\n'
        '#include "more.h"\n#endif\nvoid nowhere(int);\n#elif 1\n#endif\n'
        '#if 1\n#else\n#include "third.h"\n#endif',
    )
    project.edit(
        "csrc/bindings.cpp",
        "PYBIND11_MODULE",
        "#if (0)\nPYBIND11_MODULE(other, m) { nowhere(1); }\n#endif\nPYBIND11_MODULE",
    )


def macro_after_a_constant_function(project: Repository) -> None:
    """`f() const NOEXCEPT {` declares no constant called NOEXCEPT."""
    _ahead(
        project,
        "#define NOEXCEPT noexcept\n"
        "struct Error {\n"
        "  bool empty() const NOEXCEPT { return true; }\n"
        "  const char* what() const NOEXCEPT { return text; }\n"
        "  const char* text;\n};",
    )


def reads_what_may_be_absent(project: Repository) -> None:
    """A function of setup.py that looks before it reads."""
    read = "def read(path):\n    if not os.path.exists(path):\n        return ''\n"
    text = (project.root / "setup.py").read_text()
    call = "    return open(path).read()\n\n\nLOCAL = read('local_flags.txt')\n"
    project.write("setup.py", f"import os\n\n{read}{call}{text}")


CONDITIONS: list[Callable[[Repository], None]] = [
    included_if_it_is_there,
    left_out_for_good,
    macro_after_a_constant_function,
    reads_what_may_be_absent,
]
