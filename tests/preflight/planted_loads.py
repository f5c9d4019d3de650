"""Libraries that Python loads by their path, and units that it compiles: defects and what runs."""

from collections.abc import Callable

from revisions.repository import Repository

Plant = Callable[[Repository], None]
_BESIDE = "os.path.join(os.path.dirname(os.path.abspath(__file__)), 'libflash_ops.so')"
_TORCH = f"import os\nimport torch\ntorch.ops.load_library({_BESIDE})\n"
_CTYPES = (
    "import ctypes\nfrom pathlib import Path\n"
    "HERE = Path(__file__).parent\nLIB = ctypes.CDLL(str(HERE / 'lib' / 'flash_ops.so'))\n"
)
_JIT = (
    "import os\nfrom torch.utils.cpp_extension import load\n"
    "ROOT = os.path.dirname(os.path.dirname(__file__))\n"
    "FAST = load(name='fast', sources=[os.path.join(ROOT, 'csrc', '{}')])\n"
)


def _in_package(project: Repository, text: str) -> None:
    """Write a module that the callable's module imports."""
    project.write("flash/loads.py", text)
    project.write("flash/api.py", f"from . import loads\n\n\n{_API}")


_API = "def attention(q, k, v, is_causal=False, enable_gqa=False): ...\n"


def _loads(name: str, text: str, *, commit: bool = False) -> Plant:
    def plant(project: Repository) -> None:
        _in_package(project, text)
        if commit:
            project.commit("Load a library")

    plant.__name__ = name
    return plant


LOADS: dict[Plant, tuple[str, str, str]] = {
    _loads("loaded_by_torch", _TORCH, commit=True): (
        "loaded libraries",
        "flash/loads.py:3",
        "loads libflash_ops.so, which no build file makes; they make flash._C",
    ),
    _loads("loaded_by_ctypes", _CTYPES, commit=True): (
        "loaded libraries",
        "flash/loads.py:4",
        "loads flash_ops.so, which no build file makes",
    ),
    _loads("compiled_when_imported", _JIT.format("fast.cu"), commit=True): (
        "listed sources",
        "flash/loads.py:4",
        "csrc/fast.cu: no such file",
    ),
}


def made_by_cmake(project: Repository) -> None:
    _in_package(project, _TORCH)
    project.write("ops/CMakeLists.txt", "add_library(flash_ops SHARED ops.cpp)\n")
    project.write("ops/ops.cpp", "int ops;\n")


def made_by_a_makefile(project: Repository) -> None:
    _in_package(project, _CTYPES)
    text = "LIB = flash/lib\n$(LIB)/flash_ops.so: csrc/combine.cpp\n\tg++ -shared $^ -o $@\n"
    project.write("Makefile", text)


def made_by_setup(project: Repository) -> None:
    project.edit("setup.py", '"flash._C"', '"flash.flash_ops"')
    project.edit("csrc/bindings.cpp", "PYBIND11_MODULE(_C", "PYBIND11_MODULE(flash_ops")
    _in_package(project, _CTYPES)


def kept_in_git(project: Repository) -> None:
    _in_package(project, _CTYPES)
    project.write("flash/lib/flash_ops.so", "ELF\n")


HEALTHY_LOADS = [
    made_by_a_makefile,
    made_by_setup,
    kept_in_git,
    _loads("of_the_system", "import ctypes\nctypes.CDLL('libcudart.so.12')\nctypes.CDLL(None)\n"),
    _loads(
        "optional", _TORCH.replace("torch.ops", "try:\n    torch.ops") + "except OSError: ...\n"
    ),
    _loads("compiled_from_here", _JIT.format("combine.cpp")),
]
