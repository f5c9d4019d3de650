"""Two flashbenches in one process: the one that measures, and the package of a commit.

The commit's package is imported under its own name, so that its absolute and relative imports and
its `_C` find each other whatever the commit, and is then moved out of `sys.modules`, where the
measuring package takes its name back.
"""

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from flashbench.errors import NotMeasuredError

PACKAGE = "flashbench"

# Modules of commits stay alive as long as the process: their functions are being measured.
_kept: list[dict[str, ModuleType]] = []


@dataclass(frozen=True)
class CommitPackage:
    """A commit's package, loaded: its public function and its extension module."""

    attention: Callable[..., Any]
    extension: ModuleType | None


def load(site: Path) -> CommitPackage:
    """Import the package that lies in the directory `site`.

    Raises NotMeasuredError when it cannot be imported, lies elsewhere or has no `attention`.
    """
    with _name_lent(site):
        try:
            package = importlib.import_module(PACKAGE)
            home = Path(str(package.__file__)).resolve()
            public = getattr(package, "attention", None)
        except (Exception, SystemExit) as error:  # whatever a commit's modules raise on import
            line = " ".join(str(error).split())
            raise NotMeasuredError(
                f"the commit's package cannot be imported: {type(error).__name__}: {line}"
            ) from error
        modules = _loaded()
    if not home.is_relative_to(site.resolve()):
        raise NotMeasuredError(f"the commit has no package {PACKAGE}; {home} was imported")
    if isinstance(public, ModuleType):  # a submodule of that name hides the function
        public = getattr(public, "attention", None)
    if not callable(public):
        raise NotMeasuredError(f"the commit has no function {PACKAGE}.attention")
    _kept.append(modules)
    return CommitPackage(public, modules.get(f"{PACKAGE}._C"))


@contextmanager
def _name_lent(site: Path) -> Iterator[None]:
    ours = _loaded()
    _forget(ours)
    sys.path.insert(0, str(site))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(site))
        _forget(_loaded())
        sys.modules.update(ours)


def _loaded() -> dict[str, ModuleType]:
    return {
        name: module
        for name, module in sys.modules.items()
        if name == PACKAGE or name.startswith(PACKAGE + ".")
    }


def _forget(modules: dict[str, ModuleType]) -> None:
    for name in modules:
        del sys.modules[name]
