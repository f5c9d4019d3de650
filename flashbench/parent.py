"""A process that ends with the one that started it."""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def signal_when_parent_dies(number: int, parent: int) -> None:
    """Have the kernel send this process a signal when its parent dies; at once, where it has.

    To be called before anything that takes long, as importing torch does. Linux only.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:  # it died before we asked
            os.kill(os.getpid(), number)


def end_with(parent: int) -> None:
    """Have the kernel kill this process when its parent dies. Linux only."""
    signal_when_parent_dies(signal.SIGKILL, parent)
