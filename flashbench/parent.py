"""A process that ends with the one that started it."""

import ctypes
import sys

_PR_SET_PDEATHSIG = 1


def signal_when_parent_dies(number: int) -> None:
    """Have the kernel send this process a signal when its parent dies. Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
