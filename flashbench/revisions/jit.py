"""What a revision compiles when it is imported or called: kept beside its import root.

torch.utils.cpp_extension.load, Triton and torch.compile would put it into folders of the user that
all revisions share, by name. In `site-KEY/jit` each revision finds its own, and a launch finds what
the process before it compiled.
"""

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from flashbench import locks
from flashbench.builds import running

# Each tool's variable, and its folder.
_FOLDERS = {
    "TORCH_EXTENSIONS_DIR": "torch_extensions",
    "TRITON_CACHE_DIR": "triton",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
}
# Modules that a revision imports to compile something, perhaps at its first call.
OF_EXTENSIONS = "torch.utils.cpp_extension"
_COMPILERS = (OF_EXTENSIONS, "torch._dynamo", "triton", "numba", "cupy")


def keep(import_root: Path) -> None:
    """Make this process keep there what code of the import root compiles. For processes with one
    revision: the variables apply to everything that runs in them."""
    for variable, folder in _FOLDERS.items():
        os.environ[variable] = str(_beside(import_root) / folder)
    # The same ninja as in other processes: another one would compile everything again.
    os.environ["PATH"] = running.environment()["PATH"]
    sys.dont_write_bytecode = True  # the import root itself stays as it was made


def compilers() -> set[str]:
    """The compilers that are imported in this process."""
    return {name for name in _COMPILERS if name in sys.modules}


def is_compiled_in_place(import_root: Path) -> bool:
    """Whether extensions were compiled from sources of this import root: torch compiles them again
    for a copy of it, whose paths are others."""
    return any(_extensions(import_root).glob("*/build.ninja"))


def is_compiling(import_root: Path) -> bool:
    """Whether torch holds the lock of an extension, which it does while it compiles."""
    return any(_extensions(import_root).glob("*/lock"))


def release(import_root: Path) -> None:
    """Remove locks of processes that were ended while they compiled: torch would wait for them for
    ever."""
    for lock in _extensions(import_root).glob("*/lock"):
        lock.unlink(missing_ok=True)


@contextlib.contextmanager
def alone(import_root: Path) -> Iterator[None]:
    """Load what is compiled in place in one process at a time, without waiting for dead ones. Each
    extension is first written anew, with its times: its place in memory then varies between
    launches, as that of a copied import root does."""
    with locks.exclusive(_beside(import_root) / "lock"):
        release(import_root)
        _move_libraries(import_root)
        yield


def _move_libraries(import_root: Path) -> None:
    for library in _extensions(import_root).glob("*/*.so"):
        copy = library.with_name(f".{library.name}.{os.getpid()}")
        with contextlib.suppress(OSError):  # a full disk: the old one serves
            shutil.copy2(library, copy)
            copy.replace(library)


def _beside(import_root: Path) -> Path:
    return import_root.parent / "jit"


def _extensions(import_root: Path) -> Path:
    return _beside(import_root) / _FOLDERS["TORCH_EXTENSIONS_DIR"]
