"""asv's result files of every age as arrays."""

import copy
import json
from pathlib import Path

import numpy as np
import pytest

from flashbench.errors import InvalidInputError
from flashbench.history.asv_result import READ_COLUMNS, Reader, ResultFile

results = pytest.importorskip("asv.results", reason="no asv: pip install flashbench[history]")

STATS = {"ci_99": [0.9, 1.2], "q_25": 0.95, "q_75": 1.1, "min": 0.8, "max": 2.0, "repeat": 12}
FIRST = {
    "commit_hash": "a" * 40,
    "env_name": "conda-py3.6",
    "date": 1_500_000_000_000,
    "params": {"machine": "box"},
    "python": "3.6",
    "requirements": {},
    "benchmark_version": {"m.time_two": "v2", "m.time_one": "v1"},
    "results": {
        "m.time_one": {"result": [1.0], "stats": [STATS | {"number": 3}]},
        "m.time_two": {
            "result": [1.5, None, float("nan"), 2.0],
            "params": [["1", "2"], ["'a'", "'b'"]],
            "stats": [STATS, None, None, STATS],
        },
        "m.time_bare": 3.5,
        "m.time_failed": None,
        "m.time_all_failed": {"result": [None], "params": [["1", "2", "3"]]},
        "m.track_without_stats": {"result": [7, 8], "params": [["1", "2"]]},
    },
}


def read(path: Path, content: object) -> ResultFile:
    path.write_text(json.dumps(content))
    return Reader().read(path)


def every_number(file: ResultFile) -> np.ndarray:
    """(columns, combinations), NaN where the file has none."""
    missing = np.full(len(file.failed), np.nan)
    return np.array([missing if one is None else one for one in file.numbers])


def test_version_one_is_read_as_asv_updates_it(tmp_path: Path) -> None:
    """The first version, with or without its number, gives what asv makes of it."""
    updated = results.Results.update_to_2(copy.deepcopy(FIRST)) | {"version": 2}
    later = read(tmp_path / "later.json", updated)
    for first in (FIRST, FIRST | {"version": 1}):
        earlier = read(tmp_path / "first.json", first)
        assert (earlier.commit, earlier.environment) == (later.commit, later.environment)
        places = {row.benchmark: place for place, row in enumerate(earlier.rows)}
        order = [places[row.benchmark] for row in later.rows]
        assert [earlier.rows[place] for place in order] == later.rows
        starts = np.cumsum([0, *(row.combinations for row in earlier.rows)])
        mine = np.concatenate([np.arange(starts[p], starts[p + 1]) for p in order])
        np.testing.assert_array_equal(every_number(earlier)[:, mine], every_number(later))
        np.testing.assert_array_equal(earlier.failed[mine], later.failed)


def test_numbers_of_each_combination(tmp_path: Path) -> None:
    """What was skipped has neither a number nor failed; a null failed; all of them, if it stands
    alone for several."""
    file = read(tmp_path / "first.json", FIRST)
    assert [row.combinations for row in file.rows] == [1, 4, 1, 1, 3, 2]
    numbers = dict(zip(READ_COLUMNS, every_number(file).tolist(), strict=True))
    expected = [1.0, 1.5, None, None, 2.0, 3.5, *[None] * 4, 7.0, 8.0]
    assert [None if value != value else value for value in numbers["result"]] == expected
    assert np.flatnonzero(file.failed).tolist() == [2, 6, 7, 8, 9]
    assert numbers["stats_ci_99_a"][0] == 0.9
    assert numbers["stats_repeat"][4] == 12
    assert np.isnan(every_number(file)[1:, 5:]).all()


def test_a_file_read_after_another_keeps_nothing_of_it(tmp_path: Path) -> None:
    """Parameters that are known from the file before count only while they are the same."""
    reader = Reader()
    row = [[1.0, 2.0], [["1", "2"]], "v"]
    for axis in (["1", "2"], ["1", "2"], ["2", "1"], ["1", "3"]):
        content = {
            "commit_hash": "a" * 40,
            "env_name": "e",
            "version": 2,
            "result_columns": ["result", "params", "version"],
            "results": {"m.time": [row[0], [axis], row[2]]},
        }
        path = tmp_path / "one.json"
        path.write_text(json.dumps(content))
        assert reader.read(path).rows[0].params == [axis]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (FIRST | {"version": 3}, "schema 3, this reads 1 and 2"),
        (FIRST | {"results": {"m": {"result": [1.0, 2.0], "params": [["1"]]}}}, "2 results for 1"),
        (FIRST | {"results": {"m": {"result": "x"}}}, "damaged asv result file"),
        (FIRST | {"results": {"m": {"result": None, "params": [["1"] * 999] * 2}}}, "998001"),
        ([], "damaged asv result file"),
    ],
)
def test_what_cannot_be_read_is_told(tmp_path: Path, content: object, said: str) -> None:
    """Another version, or numbers that fit no parameters: the file and the reason."""
    with pytest.raises(InvalidInputError, match=said):
        read(tmp_path / "one.json", content)
