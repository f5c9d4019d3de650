"""Build a revision's extension once, or find out why it cannot be built."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flashbench.builds.builder import Build, build, cache_directory
    from flashbench.builds.diagnosis import BuildStatus

__all__ = ["Build", "BuildStatus", "build", "cache_directory"]


def __getattr__(name: str) -> Any:
    """Import a name on first use: preflight reads undefined symbols where nothing is installed."""
    if name in __all__:
        module = "diagnosis" if name == "BuildStatus" else "builder"
        return getattr(import_module(f"flashbench.builds.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
