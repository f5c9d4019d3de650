"""Run the same work on many items in parallel."""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

from flashbench.end_with_parent import end_with
from flashbench.errors import NotMeasuredError

Given = TypeVar("Given")
Made = TypeVar("Made")

_PARTS = 8  # per processor, to balance uneven work
_work: Callable[[int], Any] | None = None  # inherited by the forked processes


def spread(work: Callable[[int], Made], count: int, *, least: int) -> list[Made]:
    """Return [work(0), ..., work(count - 1)]; computed in this process if count is below `least`.

    `work` may be any callable, since processes inherit it; its results and exceptions are pickled.
    No process outlives this one (Linux). Raises NotMeasuredError if a process was killed.
    """
    global _work
    workers = _processors()
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
            f"one of {workers} parallel processes was killed, perhaps for lack of memory; free "
            "some and run the same command again, or use fewer processors (taskset)"
        ) from None
    finally:
        _work = None
        pool.shutdown(cancel_futures=True)
    together: list[Any] = [first] * count
    for part, results in zip(parts, made, strict=True):
        together[part.start :: workers * _PARTS] = results
    return together


def in_threads(work: Callable[[Given], Made], items: Sequence[Given]) -> list[Made]:
    """Return [work(item), ...]; for work that leaves the interpreter's lock to others most of the
    time: reading, hashing, operations on large arrays."""
    workers = _processors()
    parts = [items[start :: workers * _PARTS] for start in range(min(workers * _PARTS, len(items)))]
    together: list[Any] = [None] * len(items)
    with ThreadPoolExecutor(workers) as pool:
        made = pool.map(lambda part: [work(item) for item in part], parts)
        for start, results in enumerate(made):
            together[start :: workers * _PARTS] = results
    return together


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1


def _begin(parent: int) -> None:
    """Die with the parent, however it dies; leave Ctrl-C to the parent."""
    end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _each(indices: range) -> list[Any]:
    assert _work is not None
    return [_work(index) for index in indices]
