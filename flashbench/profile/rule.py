"""Bottleneck: the common result of all rules."""

from dataclasses import dataclass

UNKNOWN = "unknown"
BUSY = 70.0  # percent of its peak from which a unit is the bottleneck


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """name: of the bottleneck; because: two numbers, in words; next: the usual steps."""

    name: str
    because: tuple[str, ...]
    next: tuple[str, ...] = ()
