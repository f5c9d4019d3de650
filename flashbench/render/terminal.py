"""What a reader's terminal can show."""

from dataclasses import dataclass
from typing import Literal

# Readable on dark and light backgrounds, and apart for the colour-blind: cyan, red, yellow.
_COLOURS = {
    "FASTER": "1;36",
    "FASTER?": "36",
    "SLOWER": "1;31",
    "SLOWER?": "31",
    "UNDECIDED": "33",
    "WRONG": "1;7;31",
    "FAILED": "1;7;31",
    "NOT MEASURED": "35",
}


@dataclass(frozen=True, slots=True)
class Terminal:
    """width: None for a file or a pipe, where no line is wrapped and no table is split. plot: draw
    intervals beside the numbers; None: where there is room for it. unicode: else ASCII."""

    width: int | None = None
    colour: bool = False
    unicode: bool = True
    plot: bool | None = False


Part = tuple[int, int, str]  # start, end and what decides the colour


def painted(line: str, parts: list[Part]) -> str:
    """The line with its parts in the colours of their verdicts."""
    for start, end, verdict in sorted(parts, reverse=True):
        if colour := _COLOURS.get(verdict):
            line = f"{line[:start]}\x1b[{colour}m{line[start:end]}\x1b[0m{line[end:]}"
    return line


Glyphs = dict[Literal["line", "point", "one", "low", "high", "left", "right"], str]
UNICODE: Glyphs = {
    "line": "─",
    "point": "●",
    "one": "│",
    "low": "├",
    "high": "┤",
    "left": "◄",
    "right": "►",
}
ASCII: Glyphs = {
    "line": "-",
    "point": "o",
    "one": "|",
    "low": "[",
    "high": "]",
    "left": "<",
    "right": ">",
}
