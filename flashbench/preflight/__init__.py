"""What can be known before a GPU is paid for: checks on three levels, each finding with its fix."""

from flashbench.preflight.finding import LEVELS, Check, Finding, Level
from flashbench.preflight.run import PreflightReport, run

__all__ = ["LEVELS", "Check", "Finding", "Level", "PreflightReport", "run"]
