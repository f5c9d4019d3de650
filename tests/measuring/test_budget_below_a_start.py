"""A budget that is spent before a worker can measure: what the file says, and what is not begun."""

import time
from pathlib import Path

import forks
import pytest

from flashbench import operations
from flashbench.case import DtypeName
from flashbench.cost.spent import Spent
from flashbench.errors import BudgetSpentError, Exit, InvalidInputError
from flashbench.machine import cpu_name
from flashbench.measuring import scheduler
from flashbench.measuring.device_seconds import DeviceSeconds, until_deadline
from flashbench.measuring.plan import Plan
from flashbench.measuring.process import BUDGET_GRACE_SECONDS, WorkerDiedError
from flashbench.measuring.progress import Silent
from flashbench.run_plan import measure
from flashbench.runfile import read
from flashbench.views.frame import machine_text

DTYPES: tuple[DtypeName, ...] = ("fp32",)
QUICK = ("run", "--baseline-only", "--shape", "1,1,16,8", "--dtype", "fp32", "--samples", 2)


class _Slow:
    """A worker that does not get ready before the budget ends."""

    def __init__(self, *_: object) -> None:
        time.sleep(0.01)

    def ask(self, *_: object) -> None:
        raise WorkerDiedError("", "over_budget", "killed: the budget was spent")

    def kill(self) -> None:
        pass


def test_a_start_that_the_budget_ended_is_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its seconds and their price, without a result. A later command resumes the file, and keeps
    them; the next one knows what a start takes, and begins none that it cannot pay."""
    given = {"FLASHBENCH_CACHE": str(tmp_path / "cache" / "builds")}
    monkeypatch.setenv("FLASHBENCH_CACHE", given["FLASHBENCH_CACHE"])
    path = tmp_path / "run.json"
    shapes = operations.named("attention").parse("1,1,16,8")
    plan = Plan(
        shapes, [], DTYPES, device="cpu", launches=1, budget_seconds=0.01, hourly_rate=3.6e6,
        currency="usd", workers="fresh",
    )  # fmt: skip
    with monkeypatch.context() as patched:
        patched.setattr(scheduler, "Worker", _Slow)
        with pytest.raises(BudgetSpentError, match=r"before anything .*; device time .*, cost 1"):
            measure(plan, path, Silent())
    run = read(path)
    assert not run.launches
    assert machine_text(run.environment, "cpu") == cpu_name()
    lost = Spent.of(run).lost
    assert 0.01 <= lost == Spent.of(run).device
    done = forks.run(["run", "--resume", path, "--budget", "5m"], tmp_path, given)
    assert done.returncode == Exit.PASS, done.stderr
    run = read(path)
    assert run.launches[0].complete
    assert run.environment.torch
    assert Spent.of(run).lost == lost
    with monkeypatch.context() as patched:  # a machine that knows nothing
        patched.setattr(scheduler, "Worker", _Slow)
        patched.setenv("FLASHBENCH_CACHE", str(tmp_path / "other"))
        with pytest.raises(BudgetSpentError, match="before anything"):
            measure(plan, path, Silent(), run, check=True)  # of a file that is complete
    assert read(path).launches == run.launches
    done = forks.run([*QUICK, "--budget", "1ms", "-o", "new.json"], tmp_path, given)
    assert done.returncode == Exit.NOT_MEASURED
    assert "--budget leaves 0.001 s, and the shortest start of workers here took " in done.stderr
    assert "nothing was started" in done.stderr
    assert not (tmp_path / "new.json").exists()


def test_a_start_has_no_grace(tmp_path: Path) -> None:
    """Nothing would come of the time that lets a block of samples finish."""
    given = {"FLASHBENCH_CACHE": str(tmp_path / "cache" / "builds")}
    done = forks.run([*QUICK, "--budget", "1ms", "-o", "run.json"], tmp_path, given)
    assert done.returncode == Exit.NOT_MEASURED, done.stderr
    assert 0 < Spent.of(read(tmp_path / "run.json")).device < BUDGET_GRACE_SECONDS


def test_a_deadline_counts_all_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also while no worker lives; the earlier of budget and deadline ends the run."""
    monkeypatch.delenv("FLASHBENCH_DEADLINE", raising=False)
    assert (until_deadline(None), until_deadline(7.0)) == (None, 7.0)
    monkeypatch.setenv("FLASHBENCH_DEADLINE", str(time.time() + 60))
    assert until_deadline(7.0) == DeviceSeconds(7.0).left() == 7.0
    for budget in (None, 3600.0):
        left = DeviceSeconds(budget).left()
        assert left is not None
        assert 50 < left <= 60
    monkeypatch.setenv("FLASHBENCH_DEADLINE", str(int(time.time()) - 1))
    assert DeviceSeconds(None).spent(None)
    monkeypatch.setenv("FLASHBENCH_DEADLINE", "tomorrow")
    with pytest.raises(InvalidInputError, match=r"^FLASHBENCH_DEADLINE: 'tomorrow' is not a time"):
        until_deadline(None)
