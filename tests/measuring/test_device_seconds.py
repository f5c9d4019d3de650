"""The seconds of workers, by launch."""

from types import SimpleNamespace

import numpy as np
import pytest
from synthetic import make_cases, make_run

from flashbench.measuring import device_seconds
from flashbench.measuring.device_seconds import DeviceSeconds
from flashbench.runfile import Launch


def test_start_belongs_to_the_first_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often they are counted, every second of a worker is some launch's, once."""
    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr(device_seconds, "time", clock)
    seconds, first, second = DeviceSeconds(100.0), Launch(index=0, seed=0), Launch(index=1, seed=1)
    seconds.start()
    now[0] = 2.0
    assert seconds.count() == 2.0
    now[0] = 3.0
    seconds.belong_to(first)
    now[0] = 7.0
    seconds.stop()
    now[0] = 50.0
    seconds.belong_to(second)
    seconds.start()
    now[0] = 51.0
    assert seconds.left() == 92.0
    assert (first.device_seconds, second.device_seconds) == (7.0, 1.0)


def test_no_worker_starts_that_the_budget_cannot_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shortest start of the run counts; a worker that lives may use all that is left."""
    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr(device_seconds, "time", clock)
    run = make_run(np.random.default_rng(0), cases=make_cases(1), launches=2)
    seconds = DeviceSeconds(10.0)
    seconds.start()
    now[0] = 8.0
    for launch, start in zip(run.launches, (4.0, 2.5), strict=True):
        launch.start_seconds = start
    assert not seconds.spent(run)
    seconds.stop()
    assert seconds.spent(run)
    assert not seconds.spent(None)
    assert not DeviceSeconds(None).spent(run)
