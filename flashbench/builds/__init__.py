"""A revision's extension, built once, or why it cannot be built."""

from flashbench.builds.builder import Build, build, cache_directory
from flashbench.builds.diagnosis import Status

__all__ = ["Build", "Status", "build", "cache_directory"]
