"""Build a revision's extension once, or find out why it cannot be built."""

from flashbench.builds.builder import Build, build, cache_directory
from flashbench.builds.diagnosis import Status

__all__ = ["Build", "Status", "build", "cache_directory"]
