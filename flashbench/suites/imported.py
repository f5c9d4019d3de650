"""Where the modules come from that a revision's process has imported.

Nothing of flashbench imports this file, and it imports nothing of flashbench: the processes of a
suite run it by its path, because the revision may be one of flashbench itself.
"""

import os
import sys
import sysconfig

_INSTALLED = tuple(
    os.path.realpath(sysconfig.get_path(kind)) + os.sep for kind in ("purelib", "platlib", "stdlib")
)
_files: dict[str, str] = {}  # of modules that were looked at


def files() -> dict[str, str]:
    """The real path of each imported module's file, by the module's name."""
    for name, module in list(sys.modules.items()):
        if name not in _files and (file := getattr(module, "__file__", None)):
            _files[name] = os.path.realpath(file)
    return _files


def outside(tree: str, checkouts: str) -> list[str]:
    """Modules imported from the working tree `tree`. Packages of a virtual environment in it are
    none of its own, nor is what lies in the folder of the checkouts. Real paths."""
    spared = (*_INSTALLED, checkouts + os.sep)
    return sorted(
        name
        for name, file in files().items()
        if file.startswith(tree + os.sep) and not file.startswith(spared)
    )
