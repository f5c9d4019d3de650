"""Check and Finding: what to look for and why, what was found and the command that fixes it."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeVar, get_args

CheckLevel = Literal["source", "build", "device"]
LEVELS: tuple[CheckLevel, ...] = get_args(CheckLevel)

# An error fails the preflight; a warning may be intended.
Severity = Literal["error", "warning"]

Examined = TypeVar("Examined")


@dataclass(frozen=True, slots=True)
class Finding:
    """One defect.

    where: a file with its line, a tool, a device; found: what is wrong there; fix: one command for
    a shell, with what a person must write as its comment (`preflight.fixes`). repair: does what a
    program can do safely, in this process, in what it starts or by the project's own build, and
    says what it did, or raises CannotRepair.
    check: the name of the check that found it, filled in by `Check.perform`.
    """

    where: str
    found: str
    fix: str
    severity: Severity = "error"
    repair: Callable[[], str] | None = None
    check: str = ""


class CannotCheck(Exception):  # noqa: N818 - an outcome, not an error
    """What a check cannot examine, on this machine or in this project; the message says why.

    A check raises it to end, and yields it to leave out a part: what it found before counts.
    """


def in_short(doubts: Sequence[str]) -> Iterator[CannotCheck]:
    """Put all parts that a check leaves out in one line: the first, and how many more there are."""
    if doubts:
        more = f", and {len(doubts) - 1} more like it" if len(doubts) > 1 else ""
        yield CannotCheck(f"{doubts[0]}{more}")


class CannotRepair(Exception):  # noqa: N818 - an outcome, not an error
    """A repair that failed; the message says why, in one line."""


@dataclass(frozen=True, slots=True)
class Check(Generic[Examined]):
    """One kind of defect. why: what missing it costs; look: yields the findings, and what it cannot
    examine."""

    name: str
    why: str
    look: Callable[[Examined], Iterable[Finding | CannotCheck]]

    def perform(self, subject: Examined) -> tuple[list[Finding], list[str]]:
        """Return the findings, under the check's name, and each reason why there may be more.

        Findings of one place with one fix are one defect: the gravest is kept.
        """
        findings, reasons = dict[tuple[str, str], Finding](), list[str]()
        try:
            for one in self.look(subject):
                if isinstance(one, CannotCheck):
                    reasons.append(str(one))
                    continue
                known = findings.get((one.where, one.fix))
                if known is None or (known.severity, one.severity) == ("warning", "error"):
                    findings[one.where, one.fix] = replace(one, check=self.name)
        except CannotCheck as reason:
            reasons.append(str(reason))
        return list(findings.values()), list(dict.fromkeys(reasons))
