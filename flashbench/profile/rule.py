"""What bounds a call, as all rules say it."""

from dataclasses import dataclass

UNKNOWN = "unknown"
BUSY = 70.0  # percent of its peak from which on something is what bounds


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """name: what bounds; because: two numbers, in words; next: the usual steps."""

    name: str
    because: tuple[str, ...]
    next: tuple[str, ...] = ()
