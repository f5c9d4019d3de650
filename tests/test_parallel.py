"""Work that is spread over processes is the same work."""

import os
import signal

import pytest

from flashbench.errors import NotMeasuredError
from flashbench.parallel import spread


@pytest.mark.parametrize("count", [0, 1, 7, 100])
def test_results_come_in_order(count):
    """Each number's result is in its place, whichever process made it."""
    assert spread(lambda number: number**2, count, least=2) == [n**2 for n in range(count)]


def test_few_stay_here():
    """Below `least` no process is made; above it others work where there are processors."""
    assert set(spread(lambda _: os.getpid(), 9, least=10)) == {os.getpid()}
    if len(os.sched_getaffinity(0)) > 1:
        assert set(spread(lambda _: os.getpid(), 64, least=10)) - {os.getpid()}


def test_an_error_comes_through():
    """What goes wrong in a process is raised where the result was wanted."""

    def fails(number: int) -> int:
        if number == 30:
            raise OSError(28, "No space left on device", "page.html")
        return number

    with pytest.raises(OSError, match="No space left") as caught:
        spread(fails, 64, least=2)
    assert caught.value.filename == "page.html"


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor makes no process")
def test_a_killed_process_is_told():
    """A process that the system kills, as for want of memory, is one line that says so."""

    def dies(number: int) -> int:
        if number == 30:
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    with pytest.raises(NotMeasuredError, match="was killed, as for want of memory"):
        spread(dies, 64, least=2)
