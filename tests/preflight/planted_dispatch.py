"""Instantiations that a macro around the call asks for, and units that held them."""

from collections.abc import Callable

from preflight.planted import BF16, body_in_a_header
from revisions.repository import Repository

_MACROS = """\
#define DISPATCH(TYPE, NAME, ...) \\
    if (TYPE == at::kHalf) { using scalar_t = at::Half; __VA_ARGS__(); } \\
    else { using scalar_t = at::BFloat16; __VA_ARGS__(); }
#define BOOL_SWITCH(COND, NAME, ...) \\
    if (COND) { constexpr static bool NAME = true; __VA_ARGS__(); } \\
    else { constexpr static bool NAME = false; __VA_ARGS__(); }
#define CAUSAL_SWITCH BOOL_SWITCH
"""
_CALLS = "    flash::combine(nullptr, nullptr, 0);"


def _called(project: Repository, text: str) -> None:
    project.edit("csrc/bindings.cpp", "static void", f"{_MACROS}\nstatic void")
    project.edit("csrc/bindings.cpp", _CALLS, f"{text}\n{_CALLS}")


def by_a_macro(project: Repository) -> None:
    """As the fixture calls both types, but by a macro alone."""
    text = (project.root / "csrc/bindings.cpp").read_text()
    begin, end = text.index("    if ("), text.index(_CALLS)
    project.write("csrc/bindings.cpp", text[:begin] + text[end:])
    _called(
        project,
        '    DISPATCH(q.scalar_type(), "launch", [&] {\n'
        "        flash::launch<scalar_t, 64>(q.data_ptr<scalar_t>(), nullptr, 1);\n    });",
    )


def by_a_switch(project: Repository) -> None:
    """A template of two arguments, one from each of two macros."""
    declared = "template <typename T, bool Causal> void mask(T* q);\n"
    project.edit("csrc/forward.h", "}  // namespace", f"{declared}}}  // namespace")
    made = [
        f"template void mask<at::{kind}, {causal}>(at::{kind}*);\n"
        for kind in ("Half", "BFloat16")
        for causal in ("true", "false")
    ]
    body = "template <typename T, bool Causal> void mask(T* q) { *q = Causal; }\n"
    project.edit("csrc/forward.cu", "}  // namespace", f"{body}{''.join(made)}}}  // namespace")
    _called(
        project,
        '    DISPATCH(q.scalar_type(), "mask", [&] {\n'
        "        CAUSAL_SWITCH(q.size(0) > 1, Is_causal, [&] {\n"
        "            flash::mask<scalar_t, Is_causal>(q.data_ptr<scalar_t>());\n"
        "        });\n    });",
    )


def by_torch(project: Repository) -> None:
    body_in_a_header(project)
    kinds = "at::kHalf, at::kBFloat16"
    _called(
        project,
        f'    AT_DISPATCH_FLOATING_TYPES_AND2({kinds}, q.scalar_type(), "x", [&] {{\n'
        "        if (q.numel() > 8) flash::launch<scalar_t, 64>(nullptr, nullptr, 1);\n    });",
    )
    more = (
        f"template void launch<{kind}, 64>(const {kind}*, {kind}*, int);\n"
        for kind in ("float", "double")
    )
    project.edit("csrc/forward_bf16.cu", BF16, BF16 + "".join(more))


def guarded(project: Repository) -> None:
    """`if constexpr` leaves out what nobody instantiates."""
    by_a_switch(project)
    call = "flash::mask<scalar_t, Is_causal>"
    project.edit("csrc/bindings.cpp", call, f"if constexpr (Is_causal) {call}")
    project.edit("csrc/forward.cu", "template void mask<at::Half, false>(at::Half*);\n", "")


def _without(
    name: str, write: Callable[[Repository], None], file: str, line: str
) -> Callable[[Repository], None]:
    def plant(project: Repository) -> None:
        write(project)
        project.commit("Dispatch")
        project.edit(file, line, "")
        project.commit("Forget an instantiation")

    plant.__name__ = name
    return plant


def listed_and_missing(project: Repository) -> None:
    body_in_a_header(project)
    project.git("rm", "-q", "csrc/forward_bf16.cu")
    project.commit("Remove a unit that the build lists")


def removed_with_its_listing(project: Repository) -> None:
    body_in_a_header(project)
    project.git("rm", "-q", "csrc/forward_bf16.cu")
    project.edit("setup.py", ', "csrc/forward_bf16.cu"', "")
    project.commit("Remove a unit")


def called_by_a_header(project: Repository) -> None:
    """The call stands in an inline function of a header, as the body does in another."""
    body_in_a_header(project)
    call = "flash::launch<c10::BFloat16, 64>(q.data_ptr<c10::BFloat16>(), nullptr, 1);"
    text = f"inline void run_bf16(at::Tensor q) {{\n    {call}\n}}\n"
    project.write("csrc/run.h", f'#pragma once\n#include "forward.h"\n{text}')
    project.edit("csrc/bindings.cpp", call, "run_bf16(q);")
    project.edit("csrc/bindings.cpp", '#include "forward.h"', '#include "run.h"')


def dtype_added(project: Repository) -> None:
    """The macro asks for double of two templates that nothing instantiates for it."""
    by_a_switch(project)
    call = "flash::launch<scalar_t, 64>(q.data_ptr<scalar_t>(), nullptr, 1);"
    text = f'    DISPATCH(q.scalar_type(), "launch", [&] {{ {call} }});'
    project.edit("csrc/bindings.cpp", _CALLS, f"{text}\n{_CALLS}")
    project.commit("Dispatch")
    more = "    else if (TYPE == at::kDouble) { using scalar_t = double; __VA_ARGS__(); } \\\n"
    project.edit("csrc/bindings.cpp", "    else { using", f"{more}    else {{ using")
    project.commit("Dispatch double, too")


def folder_of_units_removed(project: Repository) -> None:
    """A function and the instantiation of a template, in units of a folder that a pattern finds."""
    body_in_a_header(project)
    project.edit("csrc/forward.h", "void combine", "void start(float* q, int rows);\nvoid combine")
    project.edit(
        "csrc/bindings.cpp", "flash::combine(", "flash::start(nullptr, 1); flash::combine("
    )
    project.write("csrc/sm80/bf16.cu", f'#include "../kernel.cuh"\nnamespace flash {{\n{BF16}}}\n')
    start = '#include "../forward.h"\nvoid flash::start(float* q, int rows) {}\n'
    project.write("csrc/sm80/start.cu", start)
    project.git("rm", "-qf", "csrc/forward_bf16.cu")
    project.edit(
        "setup.py",
        '["csrc/bindings.cpp", "csrc/forward.cu", "csrc/forward_bf16.cu", "csrc/combine.cpp"]',
        'glob.glob("csrc/**/*.c*", recursive=True)',
    )
    project.edit("setup.py", "from setuptools", "import glob\n\nfrom setuptools")
    project.commit("Write a folder a chip")
    project.git("rm", "-rq", "csrc/sm80")
    project.commit("Remove a chip")


def unit_of_a_module(project: Repository) -> None:
    """A unit that a module compiles when it is called."""
    project.write("csrc/late.cu", "void late() {}\n")
    text = 'from pathlib import Path\nUNIT = Path("csrc") / "late.cu"\nattention = compile\n'
    project.write("flash/api.py", text)
    project.commit("Compile late")
    project.git("rm", "-q", "csrc/late.cu")
    project.commit("Remove a unit")


def template_renamed(project: Repository) -> None:
    """The body and its instantiations, not the declaration that is called."""
    text = (project.root / "csrc/forward.cu").read_text()
    project.write("csrc/forward.cu", text.replace("void launch", "void start"))
    project.commit("Rename")


def instantiation_moved_and_lost(project: Repository) -> None:
    """The unit that had it was removed when another one took it, which has lost it since."""
    body_in_a_header(project)
    project.git("mv", "csrc/forward_bf16.cu", "csrc/bf16.cu")
    project.edit("setup.py", "csrc/forward_bf16.cu", "csrc/bf16.cu")
    project.commit("Name it shorter")
    project.git("mv", "csrc/bf16.cu", "csrc/forward_bf16.cu")
    project.edit("setup.py", "csrc/bf16.cu", "csrc/forward_bf16.cu")
    project.commit("Name it back")
    project.edit("csrc/forward_bf16.cu", BF16, "")
    project.commit("Lose")


def units_of_a_folder_removed(project: Repository) -> None:
    """By name in setup.py, and the folder stays."""
    project.git("rm", "-q", "csrc/forward.cu", "csrc/combine.cpp")
    project.commit("Remove units that the build lists")


_DOUBLE = "template void launch<double, 64>(const double*, double*, int);\n"
_MASK = "template void mask<at::BFloat16, false>(at::BFloat16*);\n"
DISPATCHED: dict[Callable[[Repository], None], tuple[str, str, str]] = {
    _without("missing_for_a_macro", by_a_macro, "csrc/forward.cu", BF16): (
        "explicit instantiations",
        "csrc/bindings.cpp:13",
        "calls launch<bf16, 64>, which csrc/forward.cu does not instantiate",
    ),
    _without("missing_for_a_switch", by_a_switch, "csrc/forward.cu", _MASK): (
        "explicit instantiations",
        "csrc/bindings.cpp:19",
        "calls mask<bf16, false>, which csrc/forward.cu does not instantiate",
    ),
    _without("missing_for_torch", by_torch, "csrc/forward_bf16.cu", _DOUBLE): (
        "explicit instantiations",
        "csrc/bindings.cpp:18",
        "calls launch<double, 64>, which csrc/forward.cu does not instantiate",
    ),
    _without("missing_for_a_header", called_by_a_header, "csrc/forward_bf16.cu", BF16): (
        "explicit instantiations",
        "csrc/run.h:4",
        "calls launch<bf16, 64>, which csrc/forward_bf16.cu does not instantiate",
    ),
    dtype_added: (
        "explicit instantiations",
        "csrc/bindings.cpp:20",
        "and 2 more like it, which csrc/forward.cu does not instantiate; DISPATCH of "
        "csrc/bindings.cpp asks for double",
    ),
    unit_of_a_module: ("listed sources", "flash/api.py:2", "lists late.cu: no such file, removed"),
    template_renamed: (
        "explicit instantiations",
        "csrc/bindings.cpp:5",
        "is declared and has no body; csrc/forward.cu has that of start",
    ),
    instantiation_moved_and_lost: (
        "explicit instantiations",
        "csrc/bindings.cpp:7",
        "calls launch<bf16, 64>, which csrc/forward_bf16.cu does not instantiate",
    ),
    folder_of_units_removed: (
        "bindings against units",
        "csrc/forward.h:7",
        "csrc/sm80/start.cu defined it, which was removed with all of csrc/sm80, 2 units",
    ),
    units_of_a_folder_removed: (
        "listed sources",
        "setup.py:8",
        "lists csrc/combine.cpp and 1 more of csrc: no such file, removed by commit",
    ),
    listed_and_missing: ("listed sources", "setup.py:8", "lists csrc/forward_bf16.cu: no such"),
    removed_with_its_listing: (
        "explicit instantiations",
        "csrc/bindings.cpp:7",
        "launch<bf16, 64>, which csrc/forward_bf16.cu instantiated, which was removed",
    ),
}
HEALTHY_DISPATCH = [by_a_macro, by_a_switch, by_torch, guarded]
