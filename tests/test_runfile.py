"""Run files: written and read back, and refused in one line when damaged or hostile."""

import json
import os
from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import make_cases, make_run

from flashbench import run_reader, runfile
from flashbench.errors import Exit, InvalidInputError
from flashbench.runfile import VERSION, RunFile, decode, read, save
from flashbench.views.of_run import render


def _document() -> dict[str, object]:
    run = make_run(np.random.default_rng(0), cases=make_cases(2), launches=2, samples=4)
    document: dict[str, object] = json.loads(runfile.encode(run))
    return document


def _refusal(document: object) -> str:
    """The message of the one error, which both ways of reading give."""
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    messages = []
    for decoder in (decode, run_reader.decode_for_analysis):
        with pytest.raises(InvalidInputError) as caught:
            decoder(text, "run.json")
        assert caught.value.exit_code is Exit.USAGE
        messages.append(str(caught.value))
    plain, for_report = messages
    # The two say differently where a value of the wrong type is.
    assert plain == for_report or ("].timings[" in plain and "damaged run file" in for_report)
    return plain


def _result(document: dict[str, object]) -> dict[str, object]:
    return document["launches"][0]["results"][0]  # type: ignore[index,no-any-return]


@pytest.mark.parametrize(
    ("name", "spec", "baseline"),
    [("sdpa", "m:f", False), ("sdpa:math", "sdpa:math", False), ("sdpa", "sdpa:flash", True)],
)
def test_names_of_baselines_are_theirs(name: str, spec: str, baseline: bool) -> None:
    """A file whose candidate would be read as SDPA, or as another backend, is refused."""
    document = _document()
    document["candidates"] = [
        *(c for c in document["candidates"] if not c["baseline"]),  # type: ignore[attr-defined]
        {"name": name, "spec": spec, "baseline": baseline},
    ]
    document["launches"] = []
    assert f"{name!r} is a baseline's name" in _refusal(document)


def test_saved_and_loaded_is_the_same(tmp_path):
    """Every field survives the round trip."""
    run = make_run(np.random.default_rng(0), cases=make_cases(2), launches=2, samples=4)
    save(run, tmp_path / "run.json")
    assert read(tmp_path / "run.json") == run
    assert [p.name for p in tmp_path.iterdir()] == ["run.json"]


def test_read_for_a_report_is_the_same(tmp_path):
    """A report of the compact reading is that of the plain one, value by value."""
    cases = make_cases(2)
    run = make_run(
        np.random.default_rng(0), cases=cases, launches=7, samples=5, metrics=("wall", "gpu_warm")
    )
    run.launches[3].results[0].timings[0].block = [0, 0, 1, 1, 2]
    run.launches[4].results[0].timings = []
    save(run, tmp_path / "run.json")
    compact = run_reader.read_for_analysis(tmp_path / "run.json")
    for ours, theirs in zip(run.launches, compact.launches, strict=True):
        for result, other in zip(ours.results, theirs.results, strict=True):
            assert msgspec.json.encode(other, enc_hook=list) == msgspec.json.encode(result)
    for view in ("speedup", "detail"):
        assert render(compact, "json", view=view) == render(run, "json", view=view)


@pytest.mark.parametrize("samples", ["[]", "[1]", "[1.5, 2]", "[1e-12, 1e9]"])
def test_samples_that_are_read(samples):
    """Whole numbers are times too, and a metric may have no sample."""
    text = json.dumps(_document()).encode()
    timing = json.dumps(_result(_document())["timings"][0]).encode()  # type: ignore[index]
    block = "[" + ",".join("0" * len(json.loads(samples))) + "]"
    other = f'{{"metric": "wall", "calls": 1, "seconds": {samples}, "block": {block}}}'.encode()
    for decoder in (decode, run_reader.decode_for_analysis):
        run = decoder(text.replace(timing, other, 1), "run.json")
        assert list(run.launches[0].results[0].timings[0].seconds) == json.loads(samples)


@pytest.mark.parametrize("bad", ["true", "null", '"1"', "[1]", "{}", "1,", "1 2", "NaN", "-0"])
@pytest.mark.parametrize("field", ["seconds", "block"])
def test_samples_that_are_refused(field, bad):
    """Both ways of reading refuse the same lists of numbers, however they are wrong."""
    document = _document()
    timing = _result(document)["timings"][0]  # type: ignore[index]
    timing[field][1] = 123456789
    text = json.dumps(document).replace("123456789", bad).encode()
    if (field, bad) == ("block", "-0"):
        assert (
            run_reader.decode_for_analysis(text, "run.json").cases == decode(text, "run.json").cases
        )
    else:
        _refusal(text)


def test_unknown_fields_are_ignored():
    """A newer minor writer may add fields anywhere."""
    document = _document()
    document["new"] = {"a": [1]}
    _result(document)["new"] = 1
    assert isinstance(decode(json.dumps(document).encode(), "run.json"), RunFile)


@settings(max_examples=60)
@given(st.floats(0, 1, exclude_max=True))
def test_truncated_files_are_refused(share):
    """A file cut anywhere is not JSON, and says so."""
    text = json.dumps(_document()).encode()
    assert "cut short" in _refusal(text[: int(len(text) * share)])


@settings(max_examples=200)
@given(st.binary(max_size=200))
def test_any_bytes_are_refused_in_one_line(junk):
    """Whatever bytes come, the answer is the one error for the user."""
    assert _refusal(junk).startswith("run.json: ")


@settings(max_examples=200)
@given(st.data())
def test_a_damaged_value_is_refused_or_read(data):
    """Replacing any value anywhere gives a table or the one error, never another exception."""
    document = _document()
    node, key = document, data.draw(st.sampled_from(sorted(document)))
    while isinstance(node[key], (dict, list)) and node[key] and data.draw(st.booleans()):
        node = node[key]
        keys = sorted(node) if isinstance(node, dict) else range(len(node))
        key = data.draw(st.sampled_from(list(keys)))
    node[key] = data.draw(
        st.none()
        | st.integers()
        | st.floats(allow_nan=False)
        | st.text()
        | st.just([])
        | st.just({})
    )
    text = json.dumps(document).encode()
    accepted = []
    for decoder in (decode, run_reader.decode_for_analysis):
        try:
            accepted.append(decoder(text, "run.json"))
        except InvalidInputError:
            accepted.append(None)
    assert (accepted[0] is None) == (accepted[1] is None)
    for run in filter(None, accepted):
        for view in ("speedup", "detail"):
            with suppress(InvalidInputError):
                assert render(run, "text", view=view)
                assert json.loads(render(run, "json", view=view))


def test_future_schema():
    """A newer schema says to upgrade, even where its fields do not fit ours."""
    document = _document() | {"version": VERSION + 1}
    assert "upgrade flashbench" in _refusal(document)
    assert "upgrade flashbench" in _refusal(document | {"launches": "elsewhere now"})
    assert "schema version 0" in _refusal(document | {"version": 0})


def test_other_formats():
    """Another tool's JSON is reported as such."""
    assert "not a flashbench run file" in _refusal({"benchmarks": []})
    assert "not a flashbench run file" in _refusal(_document() | {"format": "asv"})


def test_deep_nesting():
    """A document nested a hundred thousand deep does not end in a recursion error."""
    deep = b"[" * 100_000 + b"]" * 100_000
    assert "run.json" in _refusal(deep)
    assert "run.json" in _refusal(b'{"format": "flashbench-run", "version": 1, "x": ' + deep + b"}")


@pytest.mark.parametrize(
    "bad", ["0", "-1e-3", "NaN", "Infinity", "1e999", "1e300", "1e-300", '"1"', "null"]
)
def test_impossible_times(bad):
    """Zero, negative, infinite, not-a-number and absurd times are damage."""
    document = _document()
    _result(document)["timings"][0]["seconds"][2] = 123456789  # type: ignore[index]
    assert "run.json" in _refusal(json.dumps(document).replace("123456789", bad).encode())


def test_references_and_duplicates():
    """Names that do not resolve, or are there twice, are damage; so are blocks that do not fit."""
    document = _document()
    assert "listed twice" in _refusal(document | {"cases": [document["cases"][0]] * 2})  # type: ignore[index]
    launches = document["launches"]
    assert "same index" in _refusal(document | {"launches": [launches[0]] * 2})  # type: ignore[index]
    document = _document()
    _result(document)["candidate"] = "ghost"
    assert "'ghost'" in _refusal(document)
    document = _document()
    launch = document["launches"][0]  # type: ignore[index]
    launch["results"].append(launch["results"][0])
    assert "two results" in _refusal(document)
    document = _document()
    _result(document)["timings"][0]["block"] = [1]  # type: ignore[index]
    assert "one block number per sample" in _refusal(document)
    document = _document()
    _result(document)["timings"] *= 2  # type: ignore[operator]
    assert "metric is listed twice" in _refusal(document)


@pytest.mark.parametrize("number", [2**53, 2**64, 10**400, -1])
def test_impossible_counts(number):
    """Dimensions, bytes and block numbers that no float holds are damage."""
    document = _document()
    document["cases"][0]["shape"]["batch"] = number  # type: ignore[index]
    _refusal(document)
    document = _document()
    _result(document)["peak_memory_bytes"] = number
    _refusal(document)
    document = _document()
    _result(document)["timings"][0]["block"] = [number] * 4  # type: ignore[index]
    with pytest.raises(InvalidInputError):
        render(decode(json.dumps(document).encode(), "run.json"))


@pytest.mark.parametrize("key", ["device_seconds", "hourly_rate"])
def test_impossible_costs(key):
    """A negative device time or price is damage."""
    document = _document()
    target = document if key == "hourly_rate" else document["launches"][0]  # type: ignore[index]
    target[key] = -1.0
    assert key in _refusal(document)


def test_paths_that_are_no_files(tmp_path):
    """A missing file, a directory and a file too large are refused without reading them."""
    for path in (tmp_path / "missing.json", tmp_path, Path("a\0b")):
        with pytest.raises(InvalidInputError, match="cannot be read"):
            read(path)
    huge = tmp_path / "huge.json"
    with huge.open("wb") as file:
        os.truncate(file.fileno(), 3 * 2**30)  # sparse: takes no room
    with pytest.raises(InvalidInputError, match="too large"):
        read(huge)


@pytest.mark.parametrize(
    ("setting", "value"),
    [("launches", 10**15), ("launches", -1), ("seed", -1), ("samples", 2**60)]
    + [(f"{name}_seconds", value) for name in ("timeout", "budget") for value in (1e300, -1.0)],
)
def test_settings_that_no_run_could_have(setting, value):
    """A resumed run would count to them, or wait for them."""
    document = _document()
    document["settings"][setting] = value
    assert f"the setting {setting} is not a possible number" in _refusal(document)
