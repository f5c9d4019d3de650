"""The local records of jobs: read back whole, or refused in one line."""

from pathlib import Path

import pytest

from flashbench.cloud import record
from flashbench.cloud.record import Record
from flashbench.errors import InvalidInputError


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder of jobs."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def saved(name: str, **fields: object) -> Record:
    one = Record(name=name, folder="there", command=["run"], created=1.0, seconds=60.0, **fields)  # type: ignore[arg-type]
    one.place.mkdir(parents=True)
    one.save()
    return one


@pytest.mark.parametrize("content", ["{", "[]", "\0", '{"name": 1}', "OTHER"])
def test_a_damaged_record_says_how_to_forget_it(content: str) -> None:
    """Also one of another job. The records beside it are found."""
    good = saved("flashbench-1", ssh="box", measured_on=("cuda", "A GPU"))
    bad = saved("flashbench-2")
    file = bad.place / "job.json"
    text = (good.place / "job.json").read_text()
    file.write_text(text if content == "OTHER" else content)
    with pytest.raises(InvalidInputError, match=rf"to forget the job: rm -r {bad.place}$"):
        record.read(bad.name)
    assert record.read(good.name) == good
    assert record.measured_on("box") == ("cuda", "A GPU")


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a.b", "é x"])
def test_a_name_is_no_path(name: str) -> None:
    """It never leads out of the folder of jobs."""
    with pytest.raises(InvalidInputError, match="is no name of a job"):
        record.read(name)
