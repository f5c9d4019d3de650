"""The seconds of workers, by launch."""

from types import SimpleNamespace

import pytest

from flashbench.measure import device_seconds
from flashbench.measure.device_seconds import DeviceSeconds
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
