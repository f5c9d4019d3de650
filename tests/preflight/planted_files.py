"""Files that the build, the settings or the imports need, lost or on this machine alone."""

from collections.abc import Callable

from preflight.planted_builds import by_cmake, globbed
from revisions.repository import Repository

Plant = Callable[[Repository], None]
NEW = "namespace flash {\nvoid sm80_fp8() {}\n}\n"


def _glob(project: Repository) -> None:
    """setup.py finds its units by a pattern."""
    project.edit(
        "setup.py",
        'sources=["csrc/bindings.cpp", "csrc/forward.cu", "csrc/combine.cpp"]',
        'sources=glob.glob("csrc/*.cu") + glob.glob("csrc/*.cpp")',
    )
    project.commit("Find the units by a pattern")


def _forget(project: Repository, *files: str) -> None:
    """Take files out of git and leave them on this machine."""
    project.git("rm", "-q", "--cached", "-r", *files)
    project.git("commit", "-q", "-m", "Forget to add a file")


def _ignore(project: Repository, rule: str, *files: str) -> None:
    project.edit(".gitignore", "*.o\n", f"*.o\n{rule}\n")
    project.git("add", ".gitignore")
    _forget(project, *files)


def glob_untracked(project: Repository) -> None:
    _glob(project)
    _forget(project, "csrc/combine.cpp")


def glob_ignored(project: Repository) -> None:
    _glob(project)
    _ignore(project, "comb*", "csrc/combine.cpp")


def glob_of_cmake_untracked(project: Repository) -> None:
    globbed(project)
    _forget(project, "csrc/sm80/bf16.cu")


def glob_staged(project: Repository) -> None:
    glob_untracked(project)
    project.git("add", "csrc/combine.cpp")


def glob_of_make_untracked(project: Repository) -> None:
    by_cmake(project)
    project.write("Makefile", "SRC := $(wildcard csrc/*.cu csrc/*.cpp)\nall: $(SRC)\n\tcc $(SRC)\n")
    project.commit("Build with make")
    _forget(project, "csrc/combine.cpp")


def module_untracked(project: Repository) -> None:
    _forget(project, "flash/api.py")


def module_ignored(project: Repository) -> None:
    _ignore(project, "/flash/a*", "flash/api.py")


def package_untracked(project: Repository) -> None:
    """The callable's module alone is named: one defect, one command."""
    project.write("flash/__init__.py", "from . import tables\n")
    project.write("flash/tables.py", "TABLE = 1\n")
    project.commit("Import a module")
    _forget(project, "flash/tables.py")


def import_ignored(project: Repository) -> None:
    project.write("flash/__init__.py", "from flash.tables import TABLE\n")
    project.write("flash/tables.py", "TABLE = 1\n")
    project.commit("Import a module")
    _ignore(project, "tab*.py", "flash/tables.py")


def import_deleted(project: Repository) -> None:
    project.write("flash/__init__.py", "from . import tables\n")
    project.write("flash/tables.py", "TABLE = 1\n")
    project.commit("Import a module")
    (project.root / "flash/tables.py").unlink()


def import_removed(project: Repository) -> None:
    import_deleted(project)
    project.commit("Remove a module that is imported")


def import_never_written(project: Repository) -> None:
    project.write("flash/__init__.py", "from . import tables\n")
    project.commit("Import a module that another machine has")


def callable_package_untracked(project: Repository) -> None:
    _forget(project, "flash")


def init_untracked(project: Repository) -> None:
    _forget(project, "flash/__init__.py")


def sources_untracked(project: Repository) -> None:
    _forget(project, "csrc")


def setup_untracked(project: Repository) -> None:
    _forget(project, "setup.py")


def setup_ignored(project: Repository) -> None:
    _ignore(project, "setup.py", "setup.py")


def setup_deleted(project: Repository) -> None:
    (project.root / "setup.py").unlink()


def setup_removed(project: Repository) -> None:
    project.git("rm", "-q", "setup.py")
    project.git("commit", "-q", "-m", "Remove what the build runs")


def _cmake(project: Repository) -> None:
    globbed(project)
    project.git("mv", "csrc/CMakeLists.txt", "csrc/kernels.cmake")
    project.write("csrc/CMakeLists.txt", "include(kernels.cmake)\n")
    project.write("csrc/tiles/CMakeLists.txt", "add_library(tiles STATIC tile.cpp)\n")
    project.write("csrc/tiles/tile.cpp", "int tile;\n")
    project.write("csrc/version.txt.in", "@VERSION@\n")
    project.write(
        "CMakeLists.txt",
        "project(flash)\nadd_subdirectory(csrc)\nadd_subdirectory(csrc/tiles)\n"
        "configure_file(csrc/version.txt.in version.txt)\n",
    )
    build = '["cmake", "-S", ".", "-B", "build"]'
    project.edit("pyproject.toml", 'build = ["python"]', f"build = {build}")
    project.commit("Build with CMake from the root")


def _without(file: str, how: str) -> Plant:
    """A project of CMake that lacks a file: deleted, removed by a commit, untracked."""

    def plant(project: Repository) -> None:
        _cmake(project)
        if how == "untracked":
            _forget(project, file)
        else:
            (project.root / file).unlink()
        if how == "removed":
            project.commit("Remove a file that CMake reads")

    plant.__name__ = f"{file.replace('/', '_').replace('.', '_')}_{how}"
    return plant


def _support(project: Repository) -> None:
    project.write("build_support/__init__.py", "")
    project.write("build_support/flags.py", "FLAGS = []\n")
    imports = "from build_support.flags import FLAGS\nfrom setuptools import setup"
    project.edit("setup.py", "from setuptools import setup", imports)
    project.commit("Keep the flags apart")


def support_deleted(project: Repository) -> None:
    _support(project)
    (project.root / "build_support/flags.py").unlink()


def support_removed(project: Repository) -> None:
    support_deleted(project)
    project.commit("Remove the flags")


def support_untracked(project: Repository) -> None:
    _support(project)
    _forget(project, "build_support/flags.py")


_ALONE = "is on this machine alone: git does not track it"
FILES: dict[Plant, tuple[str, str, str]] = {
    glob_untracked: ("files in git", "setup.py:8", f"compiles csrc/combine.cpp, which {_ALONE}"),
    glob_ignored: ("files in git", "setup.py:8", "git ignores it (.gitignore:2 comb*)"),
    glob_staged: ("files in git", "setup.py:8", "which is staged, not committed"),
    glob_of_cmake_untracked: (
        "files in git",
        "csrc/CMakeLists.txt",
        "sm80/bf16.cu, which is on",
    ),
    glob_of_make_untracked: ("files in git", "Makefile", f"csrc/combine.cpp, which {_ALONE}"),
    module_untracked: ("files in git", "callable", f"flash/api.py {_ALONE}"),
    module_ignored: ("files in git", "callable", "git ignores it (.gitignore:2 /flash/a*)"),
    package_untracked: ("files in git", "flash/__init__.py:1", f"flash/tables.py {_ALONE}"),
    import_ignored: ("files in git", "flash/__init__.py:1", "(.gitignore:2 tab*.py)"),
    import_deleted: ("files in git", "flash/__init__.py:1", "needs flash/tables.py: no such file"),
    import_removed: ("files in git", "flash/__init__.py:1", "removed by commit"),
    import_never_written: ("module name", "flash/__init__.py:1", "no flash/tables.py"),
    callable_package_untracked: ("files in git", "callable", f"flash {_ALONE}"),
    init_untracked: ("files in git", "callable", f"flash/__init__.py {_ALONE}"),
    sources_untracked: ("files in git", "sources", f"csrc {_ALONE}"),
    setup_untracked: ("files in git", "build", f"setup.py {_ALONE}"),
    setup_ignored: ("files in git", "build", "git ignores it (.gitignore:2 setup.py)"),
    setup_deleted: (
        "project settings",
        "build",
        "setup.py does not exist, deleted here",
    ),
    setup_removed: ("project settings", "build", "setup.py does not exist, removed by commit"),
    support_deleted: ("files in git", "setup.py:1", "needs build_support/flags.py: no such file"),
    support_removed: ("files in git", "setup.py:1", "build_support/flags.py"),
    support_untracked: ("files in git", "setup.py:1", f"build_support/flags.py {_ALONE}"),
}
_CMAKE_FILES = {
    "CMakeLists.txt": "pyproject.toml",
    "csrc/CMakeLists.txt": "CMakeLists.txt:2",
    "csrc/kernels.cmake": "csrc/CMakeLists.txt:1",
    "csrc/tiles/CMakeLists.txt": "CMakeLists.txt:3",
    "csrc/version.txt.in": "CMakeLists.txt:4",
}
FILES |= {
    _without(file, how): ("files in git", where, file)
    for file, where in _CMAKE_FILES.items()
    for how in ("deleted", "removed", "untracked")
}
