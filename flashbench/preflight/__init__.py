"""What to check before paying for a GPU: checks on three levels, each finding with its fix."""

from flashbench.preflight.finding import LEVELS, Check, Finding, Level
from flashbench.preflight.perform import PreflightReport, run

__all__ = ["LEVELS", "Check", "Finding", "Level", "PreflightReport", "run"]
