"""What to check before paying for a GPU: checks on three levels, each finding with its fix."""

from flashbench.preflight.finding import LEVELS, Check, CheckLevel, Finding
from flashbench.preflight.perform import PreflightReport, run

__all__ = ["LEVELS", "Check", "CheckLevel", "Finding", "PreflightReport", "run"]
