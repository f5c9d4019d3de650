"""The local records of jobs: read back whole, or refused in one line."""

from pathlib import Path

import numpy as np
import pytest
from synthetic import make_cases, make_run

from flashbench.cloud import job_record
from flashbench.cloud.follow import take_home
from flashbench.cloud.job import RemoteJob
from flashbench.cloud.job_record import JobRecord
from flashbench.cloud.order import pack_order
from flashbench.errors import InvalidInputError
from flashbench.runfile import Costs, save


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder of jobs, and no knowledge of costs."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("FLASHBENCH_CACHE", str(tmp_path / "cache" / "builds"))


def saved(name: str, **fields: object) -> JobRecord:
    one = JobRecord(name=name, folder="there", command=["run"], created=1.0, seconds=60.0, **fields)  # type: ignore[arg-type]
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
        job_record.read(bad.name)
    assert job_record.read(good.name) == good
    assert job_record.measured_on("box") == ("cuda", "A GPU")


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a.b", "é x"])
def test_a_name_is_no_path(name: str) -> None:
    """It never leads out of the folder of jobs."""
    with pytest.raises(InvalidInputError, match="is no name of a job"):
        job_record.read(name)


def test_a_run_file_that_cannot_be_written_is_no_reason_to_keep_a_machine(tmp_path: Path) -> None:
    """It is said where the results are; the job ends as usual."""
    told: list[str] = []
    fetched = tmp_path / "out.json"
    save(make_run(np.random.default_rng(0), cases=make_cases(1), launches=1, samples=2), fetched)
    where = take_home(
        fetched, tmp_path / "out.json" / "no-folder" / "out.json", told.append, Costs()
    )
    assert where == ("cpu", "Test CPU")
    assert told == [f"warning: {tmp_path}/out.json/no-folder/out.json: cannot be written: "
                    f"Not a directory; the run file is {fetched}"]  # fmt: skip


def test_a_folder_of_jobs_that_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line with the variable that names another."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    one = JobRecord(name="x", folder="", command=[], created=0.0, seconds=1.0)
    with pytest.raises(InvalidInputError, match=r"cannot be created .* set XDG_STATE_HOME"):
        pack_order(RemoteJob(tmp_path, ["run"]), one, print)
