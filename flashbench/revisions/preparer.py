"""Prepare many revisions at once, in threads that mostly wait for compilers."""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from pathlib import Path

from flashbench import defaults
from flashbench.builds import running
from flashbench.builds.recipe import PROBE_TIMEOUT_SECONDS
from flashbench.builds.scratch import sweep
from flashbench.errors import NotMeasuredError
from flashbench.revisions import git
from flashbench.revisions.built import Built
from flashbench.revisions.check import Checker
from flashbench.revisions.fingerprint import contents_of
from flashbench.revisions.ledger import Stage
from flashbench.revisions.prepare import prepare
from flashbench.revisions.project import Project
from flashbench.revisions.revision import Revision

_SILENCE_SECONDS = 30.0  # until the first progress line; the interval doubles each time
_INNER_JOBS = "FLASHBENCH_JOBS"  # compilers that one flashbench build may start


class Preparer:
    """Prepares revisions of a project in `jobs` threads. Use as a context manager: leaving it by an
    exception, including Ctrl-C, ends all running builds.
    """

    def __init__(
        self,
        project: Project,
        cache: Path,
        *,
        jobs: int = 1,
        retry_failed: bool = False,
        timeout: float = defaults.BUILD_TIMEOUT_SECONDS,
        cases: Sequence[str] = (),
        still: Callable[[Sequence[Revision]], None] = lambda revisions: None,
    ) -> None:
        """still: called now and then with the revisions in progress, while none becomes ready."""
        self._project, self._cache = project, cache
        self._retry_failed, self._timeout = retry_failed, timeout
        self._cases, self._still = cases, still
        self._limit = min(timeout, PROBE_TIMEOUT_SECONDS)  # of an import, and of the calls
        self._pool = ThreadPoolExecutor(jobs)
        self._thread = threading.local()
        self._at_end = ExitStack()
        self._jobs = jobs

    def __enter__(self) -> "Preparer":
        self._at_end.enter_context(_shared_cores(self._jobs))
        with contextlib.suppress(OSError):  # reported on use
            sweep(self._cache)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            running.stop_all()
        self._pool.shutdown(cancel_futures=True)
        self._at_end.close()

    def prepare(
        self,
        revisions: Sequence[Revision],
        stage: Stage,
        done: Callable[[Built], None] = lambda built: None,
    ) -> list[Built]:
        """Prepare all of them; returns results in order. done: called in this thread for each.

        One revision of each set of equal sources goes first, so no thread waits for another's
        build. Raises what `prepare` raises.
        """
        first, rest = self._by_sources(revisions)
        found: dict[int, Built] = {}
        for places in (first, rest):
            futures: dict[Future[Built], int] = {
                self._pool.submit(self._one, revisions[place], stage): place for place in places
            }
            waiting, patience = set(futures), _SILENCE_SECONDS
            while waiting:
                ready, waiting = wait(waiting, patience, FIRST_COMPLETED)
                for future in ready:
                    found[futures[future]] = future.result()
                    done(future.result())
                patience = _SILENCE_SECONDS if ready else 2 * patience
                if not ready:
                    going = [future for future in waiting if future.running()]
                    self._still(
                        [revisions[place] for place in sorted(futures[one] for one in going)]
                    )
        return [found[place] for place in range(len(revisions))]

    def _one(self, revision: Revision, stage: Stage) -> Built:
        if not hasattr(self._thread, "checker"):
            self._thread.checker = self._at_end.enter_context(Checker(self._limit, self._timeout))
        return prepare(
            self._project,
            revision,
            self._cache,
            stage=stage,
            retry_failed=self._retry_failed,
            timeout=self._timeout,
            checker=self._thread.checker,
            cases=self._cases,
        )

    def _by_sources(self, revisions: Sequence[Revision]) -> tuple[list[int], list[int]]:
        seen: set[str] = set()
        first: list[int] = []
        rest: list[int] = []
        for place, revision in enumerate(revisions):
            sources = ""
            with contextlib.suppress(git.GitError):  # reported when it is prepared
                if not revision.worktree:
                    sources = contents_of(self._project, revision.commit).sources
            (rest if sources and sources in seen else first).append(place)
            seen.add(sources)
        return first, rest


@contextmanager
def _shared_cores(jobs: int) -> Iterator[None]:
    """Parallel builds share the cores, unless the user set how many each may use."""
    if jobs == 1 or _INNER_JOBS in os.environ:
        yield
        return
    os.environ[_INNER_JOBS] = str(max(1, (os.cpu_count() or 1) // jobs))
    try:
        yield
    finally:
        del os.environ[_INNER_JOBS]


def default_jobs() -> int:
    """The default number of parallel builds, limited by cores and by memory for compilers."""
    return min(os.cpu_count() or 1, 4)


def refuse_interrupted() -> NotMeasuredError:
    """The message after Ctrl-C: finished builds are kept."""
    return NotMeasuredError("interrupted; finished builds are kept, and the same command resumes")
