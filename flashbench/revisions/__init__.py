"""The project under test: its settings, and its revisions made callable."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flashbench.revisions.built import Built
    from flashbench.revisions.project import Project, find, read
    from flashbench.revisions.revision import WORKTREE, Revision, resolve

__all__ = ["WORKTREE", "Built", "Project", "Revision", "find", "read", "resolve"]

_MODULES = {
    "built": ("Built",),
    "project": ("Project", "find", "read"),
    "revision": ("WORKTREE", "Revision", "resolve"),
}


def __getattr__(name: str) -> Any:
    """Import a name on first use: preflight reads git and settings where nothing is installed."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"flashbench.revisions.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
