"""Level: one step of the gate, with its state, the evidence, and what to do next."""

from dataclasses import dataclass
from enum import StrEnum

from flashbench.errors import Exit


class LevelState(StrEnum):
    """The result of a level."""

    PASSED = "PASSED"
    FAILED = "FAILED"
    UNDECIDED = "UNDECIDED"
    NOT_MEASURED = "NOT MEASURED"
    NOT_REACHED = "NOT REACHED"  # an earlier level did not pass


LEVEL_EXIT_CODES = {
    LevelState.PASSED: Exit.PASS,
    LevelState.FAILED: Exit.REGRESSION,
    LevelState.UNDECIDED: Exit.UNDECIDED,
    LevelState.NOT_MEASURED: Exit.NOT_MEASURED,
}


@dataclass(frozen=True, slots=True)
class Level:
    """evidence: one line; next: the command or step after a level that did not pass."""

    name: str
    state: LevelState
    evidence: str = ""
    next: str = ""
