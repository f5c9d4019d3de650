"""Levels that a kernel must pass in order: it builds, fits, is correct, is fast enough."""

from flashbench.gate.level import Level, LevelState
from flashbench.gate.levels import RESOURCES, built_level, correct_level, resources_level
from flashbench.gate.speed import fewest_launches, speed_level

__all__ = [
    "RESOURCES",
    "Level",
    "LevelState",
    "built_level",
    "correct_level",
    "fewest_launches",
    "resources_level",
    "speed_level",
]
