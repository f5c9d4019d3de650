"""Level: one step of the gate, what it came to, on which evidence, and what to do next."""

from dataclasses import dataclass
from enum import StrEnum

from flashbench.errors import Exit


class State(StrEnum):
    """What a level came to."""

    PASSED = "PASSED"
    FAILED = "FAILED"
    UNDECIDED = "UNDECIDED"
    NOT_MEASURED = "NOT MEASURED"
    NOT_REACHED = "NOT REACHED"  # one before it did not pass


EXIT_CODES = {
    State.PASSED: Exit.PASS,
    State.FAILED: Exit.REGRESSION,
    State.UNDECIDED: Exit.UNDECIDED,
    State.NOT_MEASURED: Exit.NOT_MEASURED,
}


@dataclass(frozen=True, slots=True)
class Level:
    """evidence: one line that says what was found; next: the command or step that follows from a
    level that did not pass."""

    name: str
    state: State
    evidence: str = ""
    next: str = ""
