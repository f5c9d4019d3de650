"""The formats: their content, and that nothing in a run file can act on a reader."""

import csv
import io
import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import make_cases, make_run

from flashbench.cli.options import FORMATS
from flashbench.operations.attention.operation import attention_case
from flashbench.operations.attention.shapes import GRID
from flashbench.render import render as render_document
from flashbench.render.escape import markdown, printable, spreadsheet
from flashbench.render.terminal import Terminal
from flashbench.runfile import Result, RunFile
from flashbench.views.of_run import document, render

HOSTILE = [
    "\x1b]0;owned\x07\x1b[31mred",
    "=cmd|' /C calc'!A0",
    "@SUM(1)",
    "a|b](javascript:alert(1))",
    "<script>alert(1)</script>",
    "![x](http://evil/x.png)",
    "\u202egnp.exe",
    "line\nbreak\r\n| a | b |",
    "`code` **bold** _em_ ~~x~~",
    "https://evil.example @torvalds #1",
    "x" * 5000,
]


def _run(**options: object) -> RunFile:
    defaults: dict[str, object] = {"cases": make_cases(3), "launches": 12, "samples": 8}
    return make_run(np.random.default_rng(0), **(defaults | options))  # type: ignore[arg-type]


def _hostile(text: str) -> RunFile:
    run = _run(candidate=text)
    run.environment.cpu = run.environment.torch = text
    run.candidates[0].build.commit = text
    run.launches[0].results[0] = Result(
        case=run.cases[0].id, candidate=text, status="wrong", reason=text
    )
    run.candidates[0].build.dirty = True
    return run


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("view", ["speedup", "detail"])
@pytest.mark.parametrize("output_format", FORMATS)
def test_hostile_strings_are_harmless(text, view, output_format):
    """No control or bidirectional character comes out; no HTML, link, formula or extra row."""
    out = render(_hostile(text), output_format, view=view)
    assert all(character.isprintable() or character == "\n" for character in out)
    if output_format == "markdown":
        assert "<" not in out
        assert not re.search(r"(?<!\\)[\[`]", out)
        assert not re.search(r"@\w|(?<!&)#\w", out)
        assert "https://" not in out
        assert "http://" not in out
        rows = [line for line in out.splitlines() if line.startswith("|")]
        columns = rows[1].count("|")
        assert all(row.replace("\\|", "").count("|") == columns for row in rows)
    if output_format == "csv":
        for row in csv.reader(io.StringIO(out)):
            for cell in row:
                assert cell[:1] not in ("=", "@") or not cell
                assert cell[:1] not in ("+", "-") or float(cell)
    if output_format == "text":
        narrow = render_document(document(_hostile(text), view=view), "text", Terminal(100))
        assert max(map(len, narrow.splitlines())) <= 100 or len(text) > 50


@given(st.text())
def test_printable_shows_everything_and_hides_nothing(text):
    """Whatever is not printable is shown as an escape; the rest is as it was."""
    shown = printable(text)
    assert shown.isprintable() or not shown.isascii()
    assert "\n" not in shown
    assert "\x1b" not in shown
    assert printable(shown) == shown


@given(st.text(alphabet="=+-@\t a1", max_size=8))
def test_no_spreadsheet_formula(text):
    """After trimming, a cell of text never begins like a formula."""
    assert spreadsheet(text).lstrip()[:1] not in ("=", "+", "-", "@")


def test_markdown_markup_is_text():
    """Markup characters are escaped, plain numbers and words are left alone."""
    assert markdown("1.20 ms, b1-h8") == "1.20 ms, b1-h8"
    assert markdown("a|b") == r"a\|b"
    assert markdown("<b>") == "&lt;b&gt;"
    assert markdown("www.evil.org") == "www&#46;evil.org"


@pytest.mark.parametrize("view", ["speedup", "detail"])
def test_csv_and_json_hold_the_same(view):
    """Both have every column and row, numbers in full."""
    run = _run(backends=("sdpa:flash",))
    rows = list(csv.DictReader(io.StringIO(render(run, "csv", view=view))))
    document = json.loads(render(run, "json", view=view))
    assert document["schema"] == "flashbench-table"
    assert len(rows) == len(document["rows"]) == (3 if view == "speedup" else 9)
    for row, other in zip(rows, document["rows"], strict=True):
        assert list(row) == list(other)
        for key, value in other.items():
            assert row[key] == ("" if value is None else str(value))


def test_json_has_no_infinity():
    """One launch has no interval: its bounds are null, not Infinity."""
    document = json.loads(render(_run(launches=1), "json"), parse_constant=pytest.fail)
    assert document["rows"][0]["speedup_low"] is None
    assert document["rows"][0]["launches_needed"] == 14


@settings(max_examples=10)
@given(
    st.integers(1, 14), st.integers(1, 400), st.booleans(), st.sampled_from([60, 80, 100, 120, 200])
)
def test_text_fits_the_terminal(launches, samples, several, width):
    """Whatever was measured, no line of text is wider than the terminal."""
    run = _run(
        cases=make_cases(2),
        launches=launches,
        samples=samples,
        backends=("sdpa:flash", "sdpa:math", "sdpa:efficient", "sdpa:cudnn") if several else (),
    )
    for view in ("speedup", "detail"):
        text = render_document(document(run, view=view), "text", Terminal(width))
        assert max(map(len, text.splitlines())) <= width


def test_the_grid_stays_one_table():
    """The longest name of the GPU grid leaves room for the verdict beside it."""
    shape = max(
        (attention_case(s, "bf16", True, "cuda") for s in GRID), key=lambda case: len(case.id)
    )
    run = _run(cases=[shape], metrics=["gpu_warm"], launches=1, baseline_seconds=0.0123)
    text = render_document(document(run), "text", Terminal(100))
    assert sum(line.startswith("case ") for line in text.splitlines()) == 1


def test_baseline_only():
    """A file with SDPA alone shows SDPA's times, in every format."""
    run = _run(backends=("sdpa:flash",))
    run.candidates = [c for c in run.candidates if c.baseline]
    for launch in run.launches:
        launch.results = [r for r in launch.results if r.candidate != "ours"]
    assert "no candidate besides SDPA" in render(run)
    rows = json.loads(render(run, "json"))["rows"]
    assert [row["best_backend"] for row in rows] == ["sdpa"] * 3
    assert "flash us" in render(run, "markdown")


def test_percentiles_below_their_sample_size():
    """96 samples are enough for p95, not for p99: that says so and is no number."""
    row = json.loads(render(_run(), "json", view="detail"))["rows"][0]
    assert row["p95_us"] > row["p50_us"]
    assert row["p99_us"] is None
    assert "not estimable" in render(_run(), view="detail")


def test_files_with_nothing_in_them():
    """No launch, or no case, is shown as such in every format and view."""
    for run in (_run(launches=0), _run(cases=[])):
        for output_format in FORMATS:
            for view in ("speedup", "detail"):
                assert render(run, output_format, view=view).strip()
