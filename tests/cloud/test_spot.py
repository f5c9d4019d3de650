"""`flashbench cloud run --gpu --spot`: a machine that is taken away, and the limits of all."""

import json
import os
import shutil
import time
from pathlib import Path

import msgspec
import pytest
from cloud.commands import COMPARE, START, calls, flashbench, removed, said, until
from cloud.machine import Machine, needs_sshd
from revisions.repository import Repository

from flashbench.cli.cloud import run as cloud_run
from flashbench.cli.cloud_job import choose_machines
from flashbench.cli.cloud_machines import via_again
from flashbench.cloud import order
from flashbench.cloud.job_record import JobRecord
from flashbench.runfile import read


@pytest.fixture
def reclaimed(
    fake: Path, rented: Machine, project: Repository, monkeypatch: pytest.MonkeyPatch
) -> Machine:
    """The rented machine, of which the first is lost with its disk once results came home."""
    wait = order.Follower.wait

    def lose(follower: order.Follower) -> object:
        if (fake / "lost").exists():
            return wait(follower)
        (fake / "lost").touch()
        until(lambda: "compare" in said(rented))
        assert follower.pull is not None
        follower.pull.mkdir(exist_ok=True)
        shutil.copy(rented.home / "sample.json", follower.pull / "out.json")
        follower.measured = 1000
        rented.kill()
        until(lambda: removed(rented.home / "sky_workdir"))
        if (fake / "full").exists():
            (fake / "full").rename(fake / "fail")
        try:
            return wait(follower)
        finally:
            rented.start()

    monkeypatch.setattr(order.Follower, "wait", lose)
    return rented


SPOT = ["--gpu", "L4", "--spot", "--yes", "--time-limit", "1h", "--lost-after", "1s"]


@needs_sshd
def test_a_spot_machine_that_is_taken_away_is_replaced(
    fake: Path, reclaimed: Machine, sent: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Another machine resumes from the results so far, within the remaining limits."""
    begun = time.time()
    assert flashbench("cloud", "run", *SPOT, *sent, *COMPARE) == 3
    assert calls(fake) == [*START, *START[1:], "down --yes"]
    assert "continuing on another" in capsys.readouterr().err
    lost = 1000 - read(reclaimed.home / "sample.json").device_seconds
    costs = read(Path("out.json")).costs
    assert costs.lost_seconds == pytest.approx(lost)
    (job,) = Path(os.environ["XDG_STATE_HOME"]).rglob("job.json")
    both = json.loads(job.read_text())["rented_before"]
    assert 1 < both < time.time() - begun
    assert costs.rented_seconds == pytest.approx(both, abs=1)
    assert (reclaimed.home / "sky_workdir" / "earlier" / "out.json").exists()


def test_all_machines_together_stay_below_the_money_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost machine may cost its whole share, so one that takes its cases is rented from what its
    own first machine left, or not at all."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    words = ["--gpu", "L4", "--machines", "2", "--money-limit", "4", "--", "run", "-o", "out.json"]
    context = cloud_run.make_context("run", words)
    options = dict(context.params)
    choose_machines(context, options)
    part = tmp_path / "part-1-of-2.json"
    job = JobRecord("job-1", "", [], 0.0, 3600.0, run_file=str(part), rented_before=1200.0)
    job.place.mkdir(parents=True)
    job.save()
    again = via_again(context, options, [part])
    assert again is not None
    money, seconds = (
        next(word.partition("=")[2] for word in again if word.startswith(flag))
        for flag in ("--money-limit=", "--time-limit=")
    )
    assert seconds == "2400s"
    assert float(money) == pytest.approx(2 * 2400 / 3600)
    msgspec.structs.replace(job, rented_before=2500.0).save()
    assert via_again(context, options, [part]) is None


@needs_sshd
def test_results_survive_a_spot_machine_that_cannot_be_replaced(
    fake: Path, reclaimed: Machine, sent: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """What came home is delivered and kept; the same command tries again and resumes from it."""
    (fake / "full").write_text("--detach-run no capacity")
    command = ["cloud", "run", *SPOT, *sent, *COMPARE]
    assert flashbench(*command) == 4
    error = capsys.readouterr().err.splitlines()[-1]
    assert "no capacity" in error
    assert "the same `cloud run` tries again" in error
    assert len(read(Path("out.json")).launches) == 2
    (job,) = Path(os.environ["XDG_STATE_HOME"]).rglob("job.json")
    assert f"what came home is in {job.parent / 'results'}" in error
    assert flashbench("cloud", "fetch", job.parent.name) == 4
    (fake / "fail").unlink()
    assert flashbench(*command) == 3
    assert (reclaimed.home / "sky_workdir" / "earlier" / "out.json").exists()


@needs_sshd
def test_results_survive_a_spot_machine_lost_near_the_time_limit(
    reclaimed: Machine,
    sent: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """No other machine is rented for less than 20 minutes: what came home is delivered."""
    monkeypatch.setattr(order.Order, "left", property(lambda self: 600))
    assert flashbench("cloud", "run", *SPOT, *sent, *COMPARE) == 4
    error = capsys.readouterr().err.splitlines()[-1]
    assert "600 s are too few for another" in error
    assert "what came home is in " in error
    assert len(read(Path("out.json")).launches) == 2
    Path("out.json").unlink()
    assert flashbench("cloud", "run", *SPOT, *sent, *COMPARE) == 4
    assert "its time is over; what came home is in" in capsys.readouterr().err
    assert Path("out.json").exists()
