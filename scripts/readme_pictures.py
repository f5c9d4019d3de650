"""Draw the pictures of README and docs/results.md from run files: python scripts/readme_pictures.py

speedups.svg: the speed-up over SDPA of our own kernels, light or dark as the screen. recording.svg:
a dark terminal that runs real commands, one after the other.
"""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from html import escape
from itertools import accumulate
from pathlib import Path
from typing import Protocol

from flashbench.case import Case
from flashbench.figures.figure import Data, Figure
from flashbench.figures.speedups import ends_of, judged, mean_text, row_panels, shape_name
from flashbench.figures.svg import sheet
from flashbench.report import report_one
from flashbench.run_reader import read_for_analysis

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"

MACHINES = {"AMD EPYC, 2 threads": "results/cpu.json", "NVIDIA H200": "results/h200.json"}
DTYPES = ("fp32", "fp16", "bf16")

# Both runs were measured with `compare`; the second branch has a planted slowdown of 5 %.
COMMANDS = (
    "flashbench compare results/machines/cpu-same.json --plot",
    "flashbench compare results/machines/h200-planted-5.json --plot",
)
COLUMNS = 100
_SHOWN, _TYPED = 8.0, 1.5  # seconds of a scene, and of the next command below it at its end
_FIRST = 3.0  # seconds of the last scene before the first
_CELL, _LINE, _EDGE = 7.25, 16, 14  # pixels
_COLOURS = {"31": "#ff8b82", "33": "#e8c268", "35": "#e79fce", "36": "#6cc0f7"}
_ESCAPE = re.compile(r"\x1b\[([0-9;]*)m")
_STYLE = (
    "text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
    "fill:#e6edf3;white-space:pre}.b{font-weight:700}.p{fill:#42d3a3}"
)


class Process(Protocol):
    """A process that was started."""

    def wait(self) -> int: ...


def figure() -> str:
    """Two panels a machine: a row for each shape, a mark with its interval for each dtype."""
    panels = []
    for name, path in MACHINES.items():
        found = judged(report_one(read_for_analysis(ROOT / path)))
        for mask in ("full", "causal"):
            here = [(one.case.dtype, one) for one in found if mask in one.case.options.values()]
            heading = [name, mask]
            named = mean_text([one for _, one in here])
            panels += row_panels(heading, here, DTYPES, ends_of(found), named, shape)
    title = (
        "SDPA's time over ours, with joint 95 % intervals (b batch, h heads, q tokens, d head dim)"
    )
    return sheet(Figure("speedups", title, title, panels, DTYPES, Data([], [])), dark=True)


def shape(case: Case) -> str:
    """Batch, heads, lengths, head dim: what no title says."""
    return f"{shape_name(case)}-d{case.sizes['head_dim']}"


def recording() -> str:
    """The commands with their output and exit code, each scene in the place of the one before.

    The last one stands in the first frame and where nothing moves; as a page may be printed at any
    moment, none is empty.
    """
    scenes = [[f"$ {text}", *_run(text)] for text in COMMANDS]
    height = (max(map(len, scenes)) + 1) * _LINE + 2 * _EDGE
    width = round(COLUMNS * _CELL + 2 * _EDGE)
    ends = list(accumulate([_SHOWN] * len(scenes)))
    rules, parts = [], []
    for number, lines in enumerate(scenes):
        start, end = ends[number] - _SHOWN, ends[number]
        rules.append(_visible(f"o{number}", start / ends[-1], end / ends[-1]))
        rules.append(_visible(f"c{number}", (end - _TYPED) / ends[-1], end / ends[-1]))
        hidden = "" if number == len(scenes) - 1 else ' opacity="0"'
        drawn = "\n".join(_text(line, place) for place, line in enumerate(lines))
        following = _text(scenes[(number + 1) % len(scenes)][0], len(lines))
        parts.append(f'<g id="o{number}"{hidden}>{drawn}</g>')
        parts.append(f'<g id="c{number}" opacity="0">{following}</g>')
    time = f"{ends[-1]:g}s {_FIRST - ends[-1]:g}s"
    rules.append(f"g{{animation:{time} step-end infinite}}")
    moving = f"@media screen and (prefers-reduced-motion:no-preference){{{''.join(rules)}}}"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img">',
            f"<title>{escape('; then '.join(COMMANDS))}</title>",
            f"<style>{_STYLE}{moving}</style>",
            f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>',
            *parts,
            "</svg>\n",
        ]
    )


def _visible(name: str, start: float, end: float) -> str:
    """Rules that show an element in this part of the whole time."""
    steps = {0.0: 0, start: 1, end: 0} if end < 1 else {0.0: 0, start: 1}
    frames = "".join(f"{100 * at:.4g}%{{opacity:{value}}}" for at, value in steps.items())
    return f"@keyframes {name}{{{frames}}}#{name}{{animation-name:{name}}}"


def _run(text: str) -> list[str]:
    """What the command prints on a terminal, and its exit code."""
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "", "NO_COLOR": ""}
    command = [sys.executable, "-m", *text.split()]
    printed, code = on_terminal(
        COLUMNS, lambda out: subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out)
    )
    return [*printed.rstrip("\n").split("\n"), "", "$ echo $?", str(code)]


def on_terminal(columns: int, start: Callable[[int], Process]) -> tuple[str, int]:
    """What a process prints on a terminal of so many columns, and its exit code. start(stdout)
    starts it."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = start(theirs)
    os.close(theirs)
    read = b""
    try:
        while new := os.read(ours, 65536):
            read += new
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    return read.decode().replace("\r\n", "\n"), process.wait()


def _text(line: str, place: int) -> str:
    """A line with the colours of its escape sequences, each part at its column."""
    y, column, kind, parts = _EDGE + 12 + place * _LINE, 0, "", []
    for number, part in enumerate(_ESCAPE.split(line)):
        if number % 2:
            codes = part.split(";")
            colour = next((_COLOURS[code] for code in codes if code in _COLOURS), "")
            bold = ' class="b"' * ("1" in codes)
            kind = bold + f' style="fill:{colour}"' * bool(colour)
            continue
        for words in re.finditer(r"\S+(?: \S+)*", part):
            at = _EDGE + (column + words.start()) * _CELL
            length = round(len(words[0]) * _CELL, 1)
            parts.append(
                f'<tspan x="{at:g}" textLength="{length:g}"{kind}>{escape(words[0])}</tspan>'
            )
        column += len(part)
    prompt = ' class="p"' if line.startswith("$ ") else ""
    return f'<text y="{y}"{prompt}>{"".join(parts)}</text>'


PICTURES = {"speedups.svg": figure, "recording.svg": recording}


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (IMAGES / name).write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
