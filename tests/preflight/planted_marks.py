"""Merge marks, renamed modules and computed lists, planted in the kernel project."""

from collections.abc import Callable

from revisions.repository import Repository


def _conflict(project: Repository, file: str, line: str) -> None:
    project.edit(file, line, f"<<<<<<< HEAD\n{line}\n=======\n{line}\n>>>>>>> other")
    project.commit("Merge")


def conflict_in_a_header(project: Repository) -> None:
    _conflict(project, "csrc/config.h", "#define MAX_THREADS 1024")


def conflict_in_setup(project: Repository) -> None:
    _conflict(project, "setup.py", '            name="flash._C",')


def conflict_in_settings(project: Repository) -> None:
    _conflict(project, "pyproject.toml", 'callable = "flash.api:attention"')


def conflict_in_a_module(project: Repository) -> None:
    project.write("flash/tables.py", "TABLE = 1\n")
    project.write("flash/__init__.py", "from flash.tables import TABLE\n")
    _conflict(project, "flash/tables.py", "TABLE = 1")


def module_that_python_cannot_read(project: Repository) -> None:
    project.write("flash/__init__.py", "from flash.tables import TABLE\n")
    project.write("flash/tables.py", "def table(:\n")
    project.commit("A slip of the pen")


def renamed_by_cmake(project: Repository) -> None:
    project.write(
        "csrc/CMakeLists.txt",
        "pybind11_add_module(_C bindings.cpp forward.cu combine.cpp)\n"
        "set_target_properties(_C PROPERTIES\n  OUTPUT_NAME flash_science)\n",
    )
    project.write("setup.py", 'subprocess.run(["cmake", "-S", ROOT / "csrc"])\n')
    project.commit("Name the library after the paper")


def _joined(project: Repository, head: str, sources: str) -> None:
    text = '["csrc/bindings.cpp", "csrc/forward.cu", "csrc/combine.cpp"]'
    project.edit("setup.py", text, sources)
    project.edit("setup.py", "setup(", f"{head}\nsetup(")
    project.commit("Compute the list")


_NAMES = '["bindings.cpp", "forward.cu", "combine.cpp", "backward.cu"]'


def joined_with_the_folder(project: Repository) -> None:
    head = "HERE = os.path.dirname(os.path.abspath(__file__))"
    _joined(project, head, f'[os.path.join(HERE, "csrc", one) for one in {_NAMES}]')


def joined_with_a_path(project: Repository) -> None:
    head = 'CSRC = Path(__file__).resolve().parent / "csrc"'
    _joined(project, head, f"[str(CSRC / one) for one in {_NAMES}]")


def listed_in_another_case(project: Repository) -> None:
    project.edit("setup.py", "csrc/combine.cpp", "csrc/Combine.cpp")
    project.commit("Write a unit as it is written elsewhere")


def module_below_a_raw_string(project: Repository) -> None:
    head = 'static const char* kHelp = R"(\n\nHelp\n)";\n'
    project.edit("csrc/bindings.cpp", "PYBIND11_MODULE(_C", f"{head}PYBIND11_MODULE(_science")
    project.commit("Name the module after the paper")


def built_under_another_name(project: Repository) -> None:
    project.edit("csrc/bindings.cpp", "PYBIND11_MODULE(_C", "PYBIND11_MODULE(TORCH_EXTENSION_NAME")
    for name in ("api", "tables"):
        project.write(f"flash/{name}.py", "from . import _C\n\n\ndef attention(q, k, v): ...\n")
    project.edit("setup.py", "flash._C", "flash._science")
    project.commit("Name the library after the paper")


def imported_without_a_package(project: Repository) -> None:
    project.edit("setup.py", "flash._C", "_fast")
    project.edit("csrc/bindings.cpp", "PYBIND11_MODULE(_C", "PYBIND11_MODULE(_fast")
    project.edit("pyproject.toml", "flash.api:attention", "fast:attention")
    project.write(
        "fast.py", "import _fastest\n\n\ndef attention(q): return _fastest.forward(q, q)\n"
    )
    project.commit("Import what nobody builds")


def imported_beside_it_without_a_package(project: Repository) -> None:
    imported_without_a_package(project)
    project.edit("fast.py", "import _fastest\n", "from . import _fastest\n")
    project.commit("Import it from the same folder")


def imported_by_nearly_its_name(project: Repository) -> None:
    imported_without_a_package(project)
    project.edit("setup.py", "_fast", "fast_attention")
    project.edit("csrc/bindings.cpp", "(_fast", "(fast_attention")
    project.edit("fast.py", "_fastest", "fused_attention")
    project.commit("Give both a longer name")


MARKS: dict[Callable[[Repository], None], tuple[str, str, str]] = {
    conflict_in_a_header: ("merge conflicts", "csrc/config.h:2", "merge conflict"),
    conflict_in_setup: ("merge conflicts", "setup.py:7", "merge conflict"),
    conflict_in_settings: ("merge conflicts", "pyproject.toml:5", "merge conflict"),
    conflict_in_a_module: ("merge conflicts", "flash/tables.py:1", "merge conflict"),
    module_that_python_cannot_read: (
        "project settings",
        "flash/tables.py:1",
        "Python cannot read it",
    ),
    renamed_by_cmake: (
        "module name",
        "csrc/bindings.cpp:12",
        "defines the module _C, but csrc/CMakeLists.txt:1 builds flash_science",
    ),
    listed_in_another_case: (
        "listed sources",
        "setup.py:8",
        "csrc/Combine.cpp: no such file, csrc/combine.cpp differs in case alone",
    ),
    imported_without_a_package: ("module name", "fast.py:1", "imports _fastest, but setup.py:7"),
    imported_beside_it_without_a_package: ("module name", "fast.py:1", "imports _fastest, but"),
    imported_by_nearly_its_name: ("module name", "fast.py:1", "imports fused_attention, but"),
    module_below_a_raw_string: ("module name", "csrc/bindings.cpp:16", "module _science, but"),
    built_under_another_name: ("module name", "flash/api.py:1", "imports flash._C, but setup.py:7"),
    joined_with_the_folder: ("listed sources", "setup.py:", "lists csrc/backward.cu: no such file"),
    joined_with_a_path: ("listed sources", "setup.py:", "lists csrc/backward.cu: no such file"),
}
