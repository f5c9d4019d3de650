"""Work that is spread over processes is the same work."""

import contextlib
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from flashbench.errors import NotMeasuredError
from flashbench.parallel import in_threads, spread

several = pytest.mark.skipif(
    sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2, reason="one process does it all"
)


@pytest.mark.parametrize("count", [0, 1, 7, 100])
def test_results_come_in_order(count):
    """Each number's result is in its place, whichever process made it."""
    assert spread(lambda number: number**2, count, least=2) == [n**2 for n in range(count)]
    assert in_threads(lambda number: number**2, range(count)) == [n**2 for n in range(count)]


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


@several
def test_a_killed_process_is_one_line():
    """A process killed for lack of memory is reported in one line with the fix."""

    def dies(number: int) -> None:
        if number == 30:
            os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(
        NotMeasuredError, match=r"was killed, perhaps for lack of memory; free some"
    ):
        spread(dies, 64, least=2)


# Says which processes there are; none of them ends by itself.
WAITING = """
import os, signal
from flashbench.parallel import in_threads, spread
def waits(number):
    if number:
        os.write(1, b"%d\\n" % os.getpid())
        signal.pause()
spread(waits, 64, least=2)
"""


@several
def test_processes_end_with_a_parent_that_is_killed():
    """Nothing of a command that was killed stays behind: its output is closed at once."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    parent = subprocess.Popen(
        [sys.executable, "-c", WAITING], env=environment, stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    with parent.stdout as output:
        workers = [int(output.readline()) for _ in range(2)]
        try:
            parent.kill()
            assert select.select([output], [], [], 30)[0], "they hold the output"
            while output.readline():  # of processes that began meanwhile
                pass
        finally:
            parent.wait()
            for worker in workers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGKILL)
