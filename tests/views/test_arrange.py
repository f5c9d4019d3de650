"""A table as its reader wants it: rows, columns, order, groups."""

import numpy as np
import pytest
from synthetic import make_cases, make_run

from flashbench.errors import InvalidInputError
from flashbench.render import render
from flashbench.table import Document
from flashbench.views.arrange import Arrangement, arranged
from flashbench.views.of_run import document


@pytest.fixture(scope="module")
def table() -> Document:
    rng = np.random.default_rng(2)
    cases = make_cases(12, ("fp16", "bf16"))
    speeds = [0.8, 0.9, 1.4] * 4
    return document(make_run(rng, cases=cases, launches=15, speedup=speeds))


def test_rows_of_a_verdict_alone(table: Document) -> None:
    """`only` keeps the rows and reasons of these verdicts, and says of how many; totals stay."""
    found = arranged(table, Arrangement(only=("SLOWER", "SAME")))
    assert {row["verdict"].text for row in found.rows} == {"SLOWER"}
    assert found.footer[0] == "8 of 12 rows: those that are SLOWER or SAME"
    assert found.summary == table.summary
    assert arranged(table, Arrangement(only=("WRONG",))).rows == []


@pytest.mark.parametrize(("name", "key"), [("speedup", "speedup"), ("ours us", "candidate_us")])
def test_rows_in_another_order(table: Document, name: str, key: str) -> None:
    """By a column, named by its key or its heading; with `-`, the largest first."""
    up = [row[key].value for row in arranged(table, Arrangement(sort=name)).rows]
    down = [row[key].value for row in arranged(table, Arrangement(sort=f"-{name}")).rows]
    assert up == sorted(row[key].value for row in table.rows)  # type: ignore[type-var]
    assert down == up[::-1]


def test_verdicts_by_urgency(table: Document) -> None:
    """What needs attention comes first."""
    rows = arranged(table, Arrangement(sort="verdict")).rows
    assert [row["verdict"].text for row in rows[:8]] == ["SLOWER"] * 8


def test_lengths_are_numbers(table: Document) -> None:
    """Parts of a case sort by value: 128 before 1024."""
    shuffled = arranged(table, Arrangement(sort="speedup"))
    rows = arranged(shuffled, Arrangement(sort="length")).rows
    assert [row["case"] for row in rows] == [row["case"] for row in table.rows]


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_groups_have_headings(table: Document, form: str) -> None:
    """Rows of a group stand together below its mean and what in it needs attention."""
    found = arranged(table, Arrangement(group="dtype"))
    assert [group.rows for group in found.groups] == [6, 6]
    assert found.groups[0].heading.startswith("fp16: 6 rows, speed-up 1.00")
    assert found.groups[0].heading.endswith("in the mean, 4 SLOWER")
    text = render(found, form)
    assert text.index("fp16: 6 rows") < text.index("-fp16-") < text.index("bf16: 6 rows")
    assert "-fp16-" not in text[text.index("bf16: 6 rows") :]


def test_chosen_columns(table: Document) -> None:
    """Identifying columns stay; requested ones get a heading and text, even data columns."""
    found = arranged(table, Arrangement(columns=("launches", "speedup_low", "verdict")))
    assert [c.key for c in found.columns] == ["case", "launches", "speedup_low", "verdict"]
    assert all(c.title and c.shown == "text" for c in found.columns)
    assert all(row[c.key].text for row in found.rows for c in found.columns)
    everything = arranged(table, Arrangement(columns=("all",))).columns
    assert len(everything) > 10
    first = arranged(table, Arrangement(columns=("verdict", "all"))).columns
    assert [c.key for c in first][:2] == ["case", "verdict"]
    assert {c.key for c in first} == {c.key for c in everything}


@pytest.mark.parametrize(
    "wish", [Arrangement(columns=("x",)), Arrangement(sort="x"), Arrangement(group="x")]
)
def test_an_unknown_name_is_refused(table: Document, wish: Arrangement) -> None:
    """With the names that there are."""
    with pytest.raises(InvalidInputError, match=r"no such column; it has .*verdict"):
        arranged(table, wish)


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (("verdict",), "95 % for 12 comparisons together"),
        (("speedup", "ours us"), "95 % for 12 comparisons together"),
        (("p", "p50_us", "bootstrap"), "95 % each; of verdicts 95 % for 12 comparisons together"),
        (("speedup", "p99_us"), "95 % each under [95 %], else 95 % for 12 comparisons together"),
    ],
)
def test_the_header_is_of_the_intervals_shown(columns: tuple[str, ...], said: str) -> None:
    """Percentiles and the bootstrap hold each alone, the speed-ups all together."""
    run = make_run(np.random.default_rng(2), cases=make_cases(12), launches=15)
    found = arranged(document(run, times=True), Arrangement(columns))
    assert found.header[-1] == f"intervals: {said}; tolerance 1 %"
