"""Text tables on terminals of any width: nothing of what tells rows apart is lost."""

import os
import pty
import re
from pathlib import Path

import forks
import numpy as np
import pytest
from synthetic import make_cases, make_run

from flashbench.cli.show import document
from flashbench.render import render
from flashbench.table import Column, Document, name_column, text_cell

HERE = Path(__file__).parent
INPUTS = [
    "golden/a.json",
    "golden/failures.json",
    "golden/gpu.json",
    "other_tools/inputs/pyperf_a.json",
]


def blocks(text: str) -> list[list[str]]:
    """The tables of a text: the lines of each, its heading and the dashes below it first."""
    parts = [part.splitlines() for part in text.split("\n\n")]
    return [part for part in parts if len(part) > 2 and set(part[1]) <= {"-", " "}]


def wide(names: list[str], titles: int = 8) -> Document:
    columns = [name_column("case", "case"), *(Column(f"k{n}", f"title {n}") for n in range(titles))]
    rows = [
        {"case": text_cell(name)} | {f"k{n}": text_cell(f"{n}.{place}") for n in range(titles)}
        for place, name in enumerate(names)
    ]
    return Document("test", ["a " * 90], columns, rows, {}, [])


@pytest.mark.parametrize("width", [60, 80, 120, 200, None])
@pytest.mark.parametrize("view", ["speedup", "detail"])
def test_every_part_names_its_rows(view: str, width: int | None) -> None:
    """Each part of a split table has the case and the candidate of each of its rows, and all parts
    together have every value once; what no terminal shows is one table."""
    run = make_run(
        np.random.default_rng(0), cases=make_cases(2), launches=9, backends=("sdpa:efficient",)
    )
    other = run.candidates[0].__copy__()
    other.name = "theirs"
    run.candidates.append(other)
    for launch in run.launches:
        ours = [result for result in launch.results if result.candidate == "ours"]
        for result in ours:
            again = result.__copy__()
            again.candidate = "theirs"
            launch.results.append(again)
    table = document(run, view=view)
    names = [column for column in table.columns if column.identifies]
    assert [column.key for column in names] == ["case", "candidate"]
    text = render(table, "text", width)
    found = blocks(text)
    expected = [[row[column.key].text for column in names] for row in table.rows]
    if not found:  # too narrow for columns
        assert width == 60
        heads = [line.split() for line in text.splitlines() if line.startswith("b1-")]
        assert heads == expected
    assert width is not None or len(found) == 1
    for part in found:
        assert [line.split()[:2] for line in part[2:]] == expected
    titles = [c.title for c in table.columns if c.shown == "text" and not c.identifies]
    for title in titles:
        headings = [part[0] for part in found] or [text]
        assert sum(f"  {title} " in f"{heading} " for heading in headings) in (1, len(expected))


def test_what_does_not_fit_beside_the_names_stands_below_them() -> None:
    """Where a column does not fit beside the name, each row is a block of lines, and each whole."""
    names = ["n" * 58, "m" * 70]
    text = render(wide(names, titles=2), "text", 60)
    assert f"{names[0]}\n  title 0  0.0\n  title 1  1.0\n\n{names[1]}\n  title 0  0.1" in text


def test_names_too_many_for_a_line_stand_in_several() -> None:
    """What tells a row apart is whole, on as many lines as it takes."""
    table = wide(["n" * 50], titles=1)
    table.columns.insert(1, name_column("commit", "commit"))
    table.rows[0]["commit"] = text_cell("c" * 12)
    lines = render(table, "text", 60).splitlines()
    assert lines[-3:] == ["n" * 50, f"    {'c' * 12}", "  title 0  0.0"]


def test_long_names_that_begin_alike_stay_apart() -> None:
    """A name is not cut where what is left out tells two rows apart."""
    names = ["x" * 200 + "1", "x" * 200 + "2"]
    for form in ("text", "markdown"):
        text = render(wide(names), form)
        assert all(name in text for name in names)


def on_a_terminal(columns: int, *arguments: str, **environment: str) -> str:
    """What the command prints on a terminal of so many columns."""
    ours, theirs = pty.openpty()
    import fcntl
    import struct
    import termios

    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = forks.start(arguments, HERE, environment, stdout=theirs)
    os.close(theirs)
    read = b""
    try:
        while new := os.read(ours, 65536):
            read += new
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert process.wait() == 0
    return read.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("file", INPUTS)
def test_the_terminal_s_width_is_used(file: str) -> None:
    """A table fits the terminal that shows it; $COLUMNS wins over that; in a pipe no line is split
    or wrapped."""
    show = ("show", *(["--view", "detail"] if "golden" in file else []), file)
    for columns in (60, 80, 120, 200):
        assert max(map(len, on_a_terminal(columns, *show).splitlines())) <= columns
    assert max(map(len, on_a_terminal(200, *show, COLUMNS="70").splitlines())) <= 70
    piped = forks.run(show, HERE).stdout
    assert len(blocks(piped)) == 1
    assert not re.search(r"^  \S", piped, re.MULTILINE)  # a line that was wrapped
