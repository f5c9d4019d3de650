"""The capabilities of the reader's terminal."""

from dataclasses import dataclass
from typing import Literal

# Readable on dark and light backgrounds, and distinct for the colour-blind: cyan, red, yellow.
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
    """width: None for a file or a pipe, which wraps no lines and splits no tables. plot: draw
    intervals beside the numbers; None: if there is room. unicode: else ASCII."""

    width: int | None = None
    colour: bool = False
    unicode: bool = True
    plot: bool | None = False


PaintedSpan = tuple[int, int, str]  # start, end and the text that determines the colour


def painted(line: str, parts: list[PaintedSpan]) -> str:
    """Colour parts of a line by their verdicts."""
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
