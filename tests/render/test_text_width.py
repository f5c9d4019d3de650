"""Text tables on terminals of any width: nothing of what tells rows apart is lost."""

import re
from pathlib import Path

import forks
import numpy as np
import pytest
from readme_pictures import on_terminal
from synthetic import make_cases, make_run

from flashbench.render import render
from flashbench.render.terminal import Terminal
from flashbench.table import Column, Document, name_column, text_cell
from flashbench.views.frame import grouped
from flashbench.views.of_run import document

HERE = Path(__file__).parents[1]
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
def test_every_part_names_its_rows(width: int | None) -> None:
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
    table = document(run, view="detail")
    names = [column for column in table.columns if column.identifies]
    assert [column.key for column in names] == ["case", "candidate"]
    text = render(table, "text", Terminal(width))
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
    text = render(wide(names, titles=2), "text", Terminal(60))
    assert f"{names[0]}\n  title 0  0.0\n  title 1  1.0\n\n{names[1]}\n  title 0  0.1" in text


def test_names_too_many_for_a_line_stand_in_several() -> None:
    """What tells a row apart is whole, on as many lines as it takes."""
    table = wide(["n" * 50], titles=1)
    table.columns.insert(1, name_column("commit", "commit"))
    table.rows[0]["commit"] = text_cell("c" * 12)
    lines = render(table, "text", Terminal(60)).splitlines()
    assert lines[-3:] == ["n" * 50, f"    {'c' * 12}", "  title 0  0.0"]


def test_long_names_that_begin_alike_stay_apart() -> None:
    """A name is not cut if the cut part distinguishes two rows."""
    names = ["x" * 200 + "1", "x" * 200 + "2"]
    for form in ("text", "markdown"):
        text = render(wide(names), form)
        assert all(name in text for name in names)


def printed_on(columns: int, *arguments: str, **environment: str) -> str:
    """What the command prints on a terminal of so many columns."""
    printed, code = on_terminal(
        columns, lambda out: forks.start(arguments, HERE, environment, stdout=out)
    )
    assert code == 0
    return printed


@pytest.mark.parametrize("file", INPUTS)
def test_the_terminal_s_width_is_used(file: str) -> None:
    """A table fits the terminal that shows it; $COLUMNS wins over that; in a pipe no line is split
    or wrapped."""
    show = ("show", *(["--view", "detail"] if "golden" in file else []), file)
    for columns in (60, 80, 120, 200):
        assert max(map(len, printed_on(columns, *show).splitlines())) <= columns
    assert max(map(len, printed_on(200, *show, COLUMNS="70").splitlines())) <= 70
    piped = forks.run(show, HERE).stdout
    assert len(blocks(piped)) == 1
    assert not re.search(r"^  \S", piped, re.MULTILINE)  # a line that was wrapped


def many(count: int = 500) -> Document:
    """The table of as many cases; every fourth is slower, every fifth undecided."""
    rng = np.random.default_rng(1)
    cases = make_cases(count, ("fp16", "bf16", "fp32"))
    speeds = [0.9 if i % 4 == 0 else 1.011 if i % 5 == 0 else 1.3 for i in range(count)]
    return document(make_run(rng, cases=cases, launches=15, samples=4, speedup=speeds))


@pytest.fixture(scope="module")
def table() -> Document:
    return many()


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_every_terminal_shows_case_speedup_and_verdict(table: Document, width: int) -> None:
    """500 cases, each with its interval, its verdict and its bar, have no line wider than the
    terminal; what is left out is named."""
    text = render(table, "text", Terminal(width, plot=True))
    assert max(map(len, text.splitlines())) <= width
    for row in table.rows:
        assert f"{row['case'].text} " in text.replace("\n", " ")
        if width <= 80:  # nothing else stands between them
            assert f"{row['speedup'].text}  {row['verdict'].text}" in text
    assert text.count("●") == len(table.rows)
    assert ("not shown: ours us, SDPA us" in text) == (width <= 80)


def test_times_that_are_compared_are_shown_together(table: Document) -> None:
    """At every width both, or neither."""
    for width in range(60, 121):
        heads = [
            line
            for line in render(table, "text", Terminal(width)).splitlines()
            if "verdict" in line
        ]
        assert ("ours us" in heads[0]) == ("SDPA us" in heads[0]), width


def test_a_wide_terminal_shows_more_columns(table: Document) -> None:
    """What there is no room for on 120 columns stands on 200, and the bars grow too."""
    texts = {width: render(table, "text", Terminal(width, plot=True)) for width in (120, 200)}
    assert "TFLOP/s" in texts[200]
    assert "TFLOP/s" not in texts[120]


def test_reasons_that_differ_in_numbers_share_a_line() -> None:
    """A reason with other numbers for each of 200 cases is one line, which says of how many."""
    reasons = [("UNDECIDED", "ours", f"case {i}", f"modes {i}.5 and {2 * i}") for i in range(200)]
    found = grouped([*reasons, ("UNDECIDED", "ours", "other", "too few")])
    assert [note.message for note in found] == [
        "ours on case 0: modes 0.5 and 0 (on 199 more the same, with other numbers)",
        "ours on other: too few",
    ]


def test_colours_only_on_a_terminal_that_wants_them() -> None:
    """Verdicts and bars are coloured on a terminal, but not for $NO_COLOR, a dumb one or a pipe;
    `compare` draws bars unasked from 120 columns on."""
    show = ("compare", "--exit-zero", "golden/a.json")
    shown = printed_on(120, *show, TERM="xterm")
    assert "\x1b[1;31mSLOWER\x1b[0m" in shown
    assert "\x1b[1;36mFASTER\x1b[0m" in shown
    assert "●" in shown
    assert max(len(re.sub(r"\x1b\[[0-9;]*m", "", line)) for line in shown.splitlines()) <= 120
    assert "\x1b" not in printed_on(120, *show, TERM="xterm", NO_COLOR="1")
    assert "\x1b" not in printed_on(120, *show, TERM="dumb")
    assert "●" not in printed_on(119, *show, TERM="xterm")
    assert "●" not in printed_on(200, *show, "--no-plot", TERM="xterm")
    piped = forks.run(show, HERE, {"COLUMNS": "200"}).stdout
    assert "\x1b" not in piped
    assert "●" not in piped


def test_a_name_cannot_colour_the_terminal() -> None:
    """An escape sequence of a name is shown as text, also where verdicts have colours."""
    names = name_column("case", "case"), Column("verdict", "verdict", "key", numeric=False)
    row = {"case": text_cell("\x1b[31mred"), "verdict": text_cell("FASTER")}
    text = render(Document("t", [], [*names], [row], {}, []), "text", Terminal(80, colour=True))
    assert r"\x1b[31mred" in text
    assert text.count("\x1b") == 2


def test_ascii_where_the_terminal_has_no_more(table: Document) -> None:
    """A terminal without Unicode gets bars of plain characters."""
    assert render(table, "text", Terminal(100, unicode=False, plot=True)).isascii()


@pytest.mark.parametrize(("width", "drawn"), [(40, False), (60, True), (80, True)])
def test_bars_are_drawn_or_said_to_be_missing(width: int, drawn: bool) -> None:
    """A terminal too narrow for bars says so."""
    run = make_run(np.random.default_rng(0), cases=make_cases(2), launches=9)
    text = render(document(run), "text", terminal=Terminal(width, plot=True))
    assert ("●" in text) == drawn
    assert ("bars (a wider terminal" in " ".join(text.split())) != drawn
