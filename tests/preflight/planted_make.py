"""Makefiles that name objects, derive names and include each other: defects and what builds."""

from collections.abc import Callable

from preflight.planted_builds import by_cmake
from revisions.repository import Repository

Plant = Callable[[Repository], None]
RULES = "%.o: %.cu\n\tnvcc -c $< -o $@\n%.o: %.cpp\n\tg++ -c $< -o $@\n"
LIBRARY = "flash/_C.so: $(OBJS)\n\tg++ -shared $^ -o $@\n"
UNITS = "csrc/bindings.cpp csrc/forward.cu csrc/combine.cpp"
OBJECTS = "csrc/bindings.o csrc/forward.o csrc/combine.o"


def build_with_make(project: Repository, text: str) -> None:
    by_cmake(project)
    project.edit("pyproject.toml", 'build = ["python"]', 'build = ["make"]')
    project.write("Makefile", text)
    for name in ("table.py", "gen.py"):
        project.write(name, "print(1)\n")


def script_gone(project: Repository) -> None:
    build_with_make(project, f"OBJS = {OBJECTS}\n{LIBRARY}\t$(PYTHON) gen.py --all\n{RULES}")
    project.commit("Run a script")
    project.git("rm", "-q", "gen.py")
    project.commit("Remove a script")


def _with(name: str, text: str, *, commit: bool = False) -> Plant:
    def plant(project: Repository) -> None:
        build_with_make(project, text)
        if commit:
            project.commit("Build with make")

    plant.__name__ = name
    return plant


def include_by_a_variable(project: Repository) -> None:
    project.write("make/rules.mk", RULES)
    build_with_make(project, f"TOP = make\ninclude $(TOP)/rules.mk\nOBJS = {OBJECTS}\n{LIBRARY}")


def include_gone(project: Repository) -> None:
    include_by_a_variable(project)
    project.commit("Include rules")
    (project.root / "make/rules.mk").unlink()


_CUDA = "csrc/bindings.cpp csrc/forward.cu csrc/backward.cu"
MAKE: dict[Plant, tuple[str, str, str]] = {
    _with(name, text, commit=True): (
        "listed sources",
        where,
        "lists csrc/backward.cu: no such file",
    )
    for name, where, text in (
        ("object", "Makefile:1", f"OBJS = {OBJECTS} csrc/backward.o\n{LIBRARY}{RULES}"),
        (
            "object_of_a_static_rule",
            "Makefile:1",
            f"OBJS = csrc/forward.o csrc/backward.o\n{LIBRARY}"
            "$(OBJS): %.o: %.cu\n\tnvcc -c $< -o $@\n"
            "flash/_C.so: csrc/bindings.cpp csrc/combine.cpp\n",
        ),
        (
            "object_elsewhere",
            "Makefile:2",
            "B ?= build\nOBJS := $(addprefix $(B)/, forward.o \\\n  backward.o)\n"
            f"{LIBRARY}$(B)/%.o: csrc/%.cu\n\tnvcc -c $< -o $@\n",
        ),
        (
            "names_of_a_loop",
            "Makefile:2",
            "NAMES = forward backward\nSRCS = $(foreach n,$(NAMES),csrc/$(n).cu)\n"
            f"OBJS = $(SRCS:.cu=.o)\n{LIBRARY}{RULES}",
        ),
        (
            "substituted",
            "Makefile:2",
            "NAMES := forward backward\nOBJS = $(NAMES:%=csrc/%.o)\n" + LIBRARY + RULES,
        ),
        ("prerequisite", "Makefile:1", f"flash/_C.so: {_CUDA}\n\tnvcc -shared $^ -o $@\n"),
        (
            "command",
            "Makefile:3",
            f"NVCC = nvcc\nall:\n\t$(NVCC) -shared {_CUDA} -o flash/_C.so\n",
        ),
    )
}


def object_left_out(project: Repository) -> None:
    """A unit whose function Python calls in the library, by ctypes."""
    text = "OBJS = csrc/scale.o csrc/shift.o\nflash/libops.so: $(OBJS)\n\tg++ -shared $^ -o $@\n"
    build_with_make(project, text + RULES)
    for unit in ("bindings.cpp", "forward.cu", "combine.cpp"):
        project.git("rm", "-q", f"csrc/{unit}")
    for name in ("scale", "shift"):
        project.write(f"csrc/{name}.cpp", f'extern "C" int {name}(int x) {{ return x; }}\n')
    api = "import ctypes\nfrom pathlib import Path\n\n"
    api += "LIB = ctypes.CDLL(str(Path(__file__).with_name('libops.so')))\n\n\n"
    api += "def attention(q, k, v, is_causal=False, enable_gqa=False):\n"
    project.write("flash/api.py", f"{api}    return LIB.shift(LIB.scale(q))\n")
    project.commit("Call a library of make")
    project.edit("Makefile", " csrc/shift.o", "")
    project.commit("Forget an object")


MAKE[object_left_out] = (
    "called names",
    "flash/api.py:8",
    "csrc/shift.cpp defines it, which the build does not compile",
)
MAKE[script_gone] = ("files in git", "Makefile:4", "needs gen.py: no such file, removed by")
MAKE[include_gone] = ("files in git", "Makefile:2", "needs make/rules.mk: no such file")

HEALTHY_MAKE = [
    include_by_a_variable,
    _with("objects", f"OBJS = {OBJECTS}\n{LIBRARY}{RULES}"),
    _with("implicit_rule", f"OBJS = csrc/bindings.o csrc/combine.o csrc/forward.cu\n{LIBRARY}"),
    _with("vpath", f"VPATH = csrc\nOBJS = bindings.o forward.o combine.o\n{LIBRARY}{RULES}"),
    _with("substitutions", f"SRCS := {UNITS}\nA = $(SRCS:.cu=.o)\nOBJS = $(A:.cpp=.o)\n" + RULES),
    _with(
        "objects_of_other_things",
        f"OBJS = {OBJECTS} table.o fat.o\n{LIBRARY}{RULES}table.o: table.py\n\t./table.py\n"
        "fat.o: $(wildcard csrc/*.cu)\n\tnvcc -dlink $^ -o $@\n",
    ),
    _with(
        "unit_of_a_rule",
        f"OBJS = csrc/forward.o csrc/made.o\n{LIBRARY}{RULES}"
        "csrc/%.cu: csrc/%.py\n\tpython $< > $@\ncsrc/made.cu: gen.py\n\tpython gen.py > $@\n",
    ),
    _with(
        "include_that_a_rule_writes",
        f"include config.mk\nconfig.mk: configure\n\t./configure\n{LIBRARY}{RULES}",
    ),
    _with(
        "suffix_rule",
        ".SUFFIXES: .cu .o\n.cu.o:\n\tnvcc -c $< -o $@\n"
        f"OBJS = csrc/forward.o csrc/bindings.cpp csrc/combine.cpp\n{LIBRARY}",
    ),
    _with(
        "units_filtered",
        "SRCS = $(filter-out csrc/combine.cpp, $(wildcard csrc/*.cpp)) csrc/combine.cpp\n"
        f"OBJS = $(patsubst csrc/%.cpp,build/%.o,$(SRCS)) csrc/forward.o\n{LIBRARY}{RULES}"
        "build/%.o: csrc/%.cpp | build\n\tg++ -c $< -o $@\nclean:\n\trm -f old.o\n",
    ),
]

# What only the build evaluates, and how the check names it.
UNCLEAR = {
    f"OBJS = csrc/forward.o $(shell ./chip).o\n{LIBRARY}{RULES}": (
        "Makefile:1 lists ....cu, which only the build evaluates"
    ),
    f"include $(shell ./chip).mk\nOBJS = csrc/forward.o\n{LIBRARY}{RULES}": (
        "Makefile:1 includes ....mk, which only make evaluates"
    ),
    f"SRCS = csrc/forward.cu csrc/$(CHIP).cu\nOBJS = $(SRCS:.cu=.o)\n{LIBRARY}{RULES}": (
        "Makefile:1 lists csrc/....cu, which only the build evaluates"
    ),
}
