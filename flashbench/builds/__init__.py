"""A revision's extension, built once: what `asv run` installs and measures."""

from flashbench.builds.builder import Build, build, cache_directory
from flashbench.builds.diagnosis import Status

__all__ = ["Build", "Status", "build", "cache_directory"]
