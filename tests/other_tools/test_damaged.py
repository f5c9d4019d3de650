"""Untrusted files are either read, or reported in one line."""

import copy
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flashbench.cli import main
from flashbench.errors import FlashbenchError
from flashbench.other_tools import untrusted_json
from flashbench.other_tools.judge import report_other_tools
from flashbench.other_tools.read import read
from flashbench.render import render
from flashbench.views import other_tools

INPUTS = Path(__file__).parent / "inputs"
NAMES = ["pyperf_a.json", "pytest_a.json", "pytest_b.json", "asv/box/a.json", "plugin_a/0.json"]
TEXTS = {name: (INPUTS / name).read_text() for name in NAMES}
ODD = st.sampled_from(
    [None, True, "", "x", -1, 0, 10**400, 1e308, 1e-320, float("nan"), float("inf"), [], {}, [[]]]
) | st.text(max_size=5)


def _one_line(path):
    """Everything that a command does with the file; errors only of the promised kind."""
    try:
        for action in (_shown, _compared_with_itself, _alone):
            action(path)
    except FlashbenchError as error:
        message = str(error)
    else:
        return
    assert str(path) in message
    assert "\n" not in message


def _shown(path):
    for format_ in ("text", "json", "csv", "markdown"):
        render(other_tools.series_document(read(path)), format_)


def _compared_with_itself(path):
    _report(path, path)


def _alone(path):
    _report(path, None)


def _report(a, b):
    judged = report_other_tools(a, b, metric=None, against="sdpa", tolerance=0.01, alpha=0.05)
    if judged is not None:
        for format_ in ("text", "json"):
            render(other_tools.document(judged), format_)


def _places(value, path=()):
    """Every place in a JSON value, as keys from the root."""
    yield path
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, inner in items:
            yield from _places(inner, (*path, key))


PLACES = {name: [p for p in _places(json.loads(text)) if p] for name, text in TEXTS.items()}


@settings(max_examples=250)
@given(data=st.data())
def test_any_place_may_hold_anything(data, tmp_path_factory):
    """A value of another type or size anywhere is read or reported in one line, never a
    traceback."""
    name = data.draw(st.sampled_from(NAMES))
    content = json.loads(TEXTS[name])
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.sampled_from(PLACES[name]))
        owner = content
        try:
            for key in place[:-1]:
                owner = owner[key]
            if data.draw(st.booleans()):
                owner[place[-1]] = copy.deepcopy(data.draw(ODD))  # drawn twice: one object
            else:
                del owner[place[-1]]
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took this place away
    path = tmp_path_factory.mktemp("any") / "file.json"
    path.write_text(json.dumps(content))
    _one_line(path)


@settings(max_examples=60)
@given(name=st.sampled_from(NAMES), share=st.floats(0, 0.999))
def test_cut_short(name, share, tmp_path_factory):
    """A truncated file does not count as complete."""
    text = TEXTS[name].rstrip()
    path = tmp_path_factory.mktemp("cut") / "file.json"
    path.write_text(text[: int(share * len(text))])
    with pytest.raises(FlashbenchError, match=r"file\.json: "):
        read(path)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("pyperf_a.json", {"version": "2.0"}, "pyperf file of version '2.0', this reads '1.0'"),
        ("asv/box/a.json", {"version": 1}, "asv result file of schema 1, this reads 2"),
        ("asv/box/a.json", {"version": 10**30}, "this reads 2"),
        ("asv/box/a.json", {"results": {"time_x": [[1.0], [["1", "2"]]]}}, "1 results for 2"),
        ("asv/box/a.json", {"results": {"time_x": [[-1.0], []]}}, "not a possible time"),
        (
            "asv/box/a.json",
            {"results": {"time_x": ["fast"]}},
            "'time_x': result: expected a list or nothing, found text",
        ),
        ("pytest_a.json", {"benchmarks": [{}]}, "benchmarks[0]: has no 'fullname'"),
    ],
)
def test_what_is_wrong_is_named(name, change, message, tmp_path, capsys):
    """The command names the file and the damage in one line, and exits with 2."""
    path = tmp_path / "file.json"
    path.write_text(json.dumps(json.loads(TEXTS[name]) | change))
    with pytest.raises(SystemExit) as stop:
        main(["compare", str(path), str(path)])
    error = capsys.readouterr().err
    assert stop.value.code == 2
    assert "file.json" in error
    assert message in error
    assert error.count("\n") == 1


def test_parameters_that_multiply_to_too_many(tmp_path):
    """asv's parameter lists are multiplied only when there is a number for each combination."""
    params = [[str(i) for i in range(1000)]] * 20
    content = json.loads(TEXTS["asv/box/a.json"]) | {
        "results": {"time_x": [[1.0], params], "time_y": [None, params]}
    }
    path = tmp_path / "file.json"
    path.write_text(json.dumps(content))
    with pytest.raises(FlashbenchError, match="1 results for 1000"):
        read(path)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"benchmarks":' * 50_000, '{"version":' + "9" * 5000 + "}", "\xff\x00"]
)
def test_hostile_json(text, tmp_path, capsys):
    """Depth and digits without end are one line."""
    path = tmp_path / "file.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(SystemExit) as stop:
        main(["compare", str(path)])
    assert stop.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_too_large(tmp_path, monkeypatch):
    """A file beyond the limit is not read into memory."""
    path = tmp_path / "file.json"
    path.write_text(TEXTS["pyperf_a.json"])
    monkeypatch.setattr(untrusted_json, "MAX_BYTES", 1000)
    with pytest.raises(FlashbenchError, match="too large"):
        _alone(path)


def test_names_do_not_steer_the_terminal(tmp_path, capsys):
    """A hostile benchmark name is shown, not obeyed."""
    path = tmp_path / "file.json"
    path.write_text(TEXTS["pyperf_a.json"].replace("sorted", "\\u001b[2Jgone"))
    with pytest.raises(SystemExit):
        main(["compare", str(path), str(path)])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "gone" in out
