"""Spread the same work on many items over this machine's processors."""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from flashbench.errors import NotMeasuredError
from flashbench.parent import end_with

Made = TypeVar("Made")

_PARTS = 8  # per processor, so that none waits long for another
_work: Callable[[int], Any] | None = None  # inherited by the forked processes


def spread(work: Callable[[int], Made], count: int, *, least: int) -> list[Made]:
    """work(0), ..., work(count - 1); in this process if there are fewer than `least`.

    `work` may be any callable, since processes inherit it; its results and exceptions are pickled.
    No process outlives this one (Linux). Raises NotMeasuredError if one of them was killed.
    """
    global _work
    workers = len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1
    if count < least or workers < 2:
        return [work(index) for index in range(count)]
    first = work(0)  # here, so that its imports are inherited
    parts = [range(start, count, workers * _PARTS) for start in range(1, workers * _PARTS + 1)]
    _work = work
    context = multiprocessing.get_context("fork")
    pool = ProcessPoolExecutor(
        workers, mp_context=context, initializer=_begin, initargs=(os.getpid(),)
    )
    try:
        made = list(pool.map(_each, parts))
    except BrokenProcessPool:
        raise NotMeasuredError(
            f"one of {workers} processes that share the work was killed, perhaps for lack of "
            "memory; free some and run the same command again, or with fewer processors (taskset)"
        ) from None
    finally:
        _work = None
        pool.shutdown(cancel_futures=True)
    together: list[Any] = [first] * count
    for part, results in zip(parts, made, strict=True):
        together[part.start :: workers * _PARTS] = results
    return together


def _begin(parent: int) -> None:
    """End with the waiting parent, however it ends; Ctrl-C is for the parent."""
    end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _each(indices: range) -> list[Any]:
    assert _work is not None
    return [_work(index) for index in indices]
