"""Make a process end with the one that started it."""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1

# In the environment of a fleet's tasks: the process that they end with.
TASK_OF = "FLASHBENCH_TASK_OF"


def parent_of_task() -> int | None:
    """The process that started this one as a task of a fleet; None if none did."""
    parent = os.environ.get(TASK_OF)
    return None if not parent else int(parent)


def signal_when_parent_dies(number: int, parent: int) -> None:
    """Have the kernel send this process a signal when its parent dies; at once if it already has.

    Call it before anything slow, such as importing torch. Linux only.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:  # it died before the request
            os.kill(os.getpid(), number)


def end_with(parent: int) -> None:
    """Have the kernel kill this process when its parent dies. Linux only."""
    signal_when_parent_dies(signal.SIGKILL, parent)
