"""What is said before a run starts."""

import numpy as np
import pytest
from synthetic import make_cases, make_run

from flashbench.measuring.advice import advice
from flashbench.runfile import DeviceState


@pytest.mark.parametrize(("threads", "helps"), [(1, False), (2, True)])
def test_a_busy_machine_is_told_with_what_helps(threads: int, helps: bool) -> None:
    """--threads 1 is advised only where SDPA has more than one thread."""
    run = make_run(np.random.default_rng(0), cases=make_cases(1), launches=1, samples=2)
    run.environment.cpu_count, run.environment.threads = 2, threads
    busy, *_ = advice(run, DeviceState(load_average=3.0), launches=1)
    assert busy.startswith("warning: this machine is busy (load average 3.0 on 2 CPUs)")
    assert ("--threads 1" in busy) is helps
