"""Check and Finding: what is looked for and why, what was found and the command that fixes it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeVar, get_args

Level = Literal["source", "build", "device"]
LEVELS: tuple[Level, ...] = get_args(Level)

# An error fails the preflight; a warning may be as it is meant.
Severity = Literal["error", "warning"]

Subject = TypeVar("Subject")


@dataclass(frozen=True, slots=True)
class Finding:
    """One defect.

    where: a file with its line, a tool, a device; found: what is wrong there; fix: one command, or
    one sentence where no command does it. mend: does what is safe to be done by a program, in this
    process, in what it starts or by the project's own build, and says what it did, or
    raises CannotMend. check: the name
    of the check that found it, which `Check.findings` fills in.
    """

    where: str
    found: str
    fix: str
    severity: Severity = "error"
    mend: Callable[[], str] | None = None
    check: str = ""


class CannotCheck(Exception):  # noqa: N818 - an outcome, not an error
    """What a check cannot look at, on this machine or in this project; the message says why.

    A check raises it to end, and yields it to leave out a part: what it found before counts.
    """


def in_short(doubts: Sequence[str]) -> Iterator[CannotCheck]:
    """One line for all parts that a check leaves out: the first, and how many more there are."""
    if doubts:
        more = f", and {len(doubts) - 1} more like it" if len(doubts) > 1 else ""
        yield CannotCheck(f"{doubts[0]}{more}")


class CannotMend(Exception):  # noqa: N818 - an outcome, not an error
    """A mend that was tried and did not work; the message says why, in one line."""


@dataclass(frozen=True, slots=True)
class Check(Generic[Subject]):
    """One kind of defect. why: what it costs who does not find it; look: yields the findings, and
    what it cannot look at."""

    name: str
    why: str
    look: Callable[[Subject], Iterable[Finding | CannotCheck]]

    def perform(self, subject: Subject) -> tuple[list[Finding], list[str]]:
        """The findings, under its name, and each reason why there may be more."""
        findings, reasons = list[Finding](), list[str]()
        try:
            for one in self.look(subject):
                if isinstance(one, CannotCheck):
                    reasons.append(str(one))
                else:
                    findings.append(replace(one, check=self.name))
        except CannotCheck as reason:
            reasons.append(str(reason))
        return findings, list(dict.fromkeys(reasons))
