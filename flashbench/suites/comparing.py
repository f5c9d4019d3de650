"""Measure a suite's benchmarks in two revisions, launch by launch, until each is decided."""

import platform
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

import msgspec

from flashbench import __version__, defaults
from flashbench.builds import cache_directory
from flashbench.builds.scratch import scratch
from flashbench.errors import InvalidInputError, NotMeasuredError
from flashbench.machine import cpu_name
from flashbench.measuring.claim import claimed_as
from flashbench.measuring.device_seconds import until_deadline
from flashbench.measuring.progress import Progress
from flashbench.revisions.project import of_suite
from flashbench.revisions.revision import resolve
from flashbench.run_plan import signals_as_interrupt, signals_ignored
from flashbench.stats.sequential import launches_needed_tight
from flashbench.suites import suite_file
from flashbench.suites.asv import AsvPair, suite_folder
from flashbench.suites.checkouts import Checkout, check_out, unbuilt
from flashbench.suites.judging import open_cases
from flashbench.suites.pytest_runs import PytestPair, folder_of, node_ids
from flashbench.suites.suite_file import SuiteCase, SuiteLaunch, SuiteRun

NOT_OF_SUITES = "is not for --asv and --pytest: drop it"
_SAVE_SECONDS = 5.0
_TELL_SECONDS = 10.0  # of the first launch: what is left is then estimated,
_LONG_SECONDS = 600.0  # longer forecasts are printed


@dataclass(frozen=True)
class SuiteRequest:
    """What to compare. asv: a pattern of names, or ""; tests: pytest's node ids, or none.
    launches: at most; timeout: seconds of one benchmark; budget: of all launches."""

    a: str
    b: str
    asv: str = ""
    tests: Sequence[str] = ()
    tolerance: float = defaults.TOLERANCE
    confidence: float = defaults.CONFIDENCE
    launches: int = defaults.LAUNCHES_UNTIL_DECIDED
    timeout: float = defaults.TIMEOUT_SECONDS
    budget: float | None = None
    build_timeout: float = defaults.BUILD_TIMEOUT_SECONDS
    retry_build: bool = False
    even_if_same: bool = False


@dataclass
class SuiteEnd:
    """The outcome; run is None if both revisions are one build, which is not measured."""

    run: SuiteRun | None
    interrupted: bool = False
    over_budget: bool = False


def compare_suites(
    request: SuiteRequest, path: Path, progress: Progress, start: Path, *, force: bool = False
) -> SuiteEnd:
    """Measure into the file `path`, saved as it grows; one of the same comparison is resumed, any
    other refused, or replaced with `force`.

    start: the folder from which the project and the suite are found. Raises InvalidInputError, and
    NotMeasuredError if a revision cannot be built or the suite cannot be read.
    """
    try:
        re.compile(request.asv)
    except re.error as error:
        raise InvalidInputError(
            f"--asv {request.asv!r}: not a regular expression: {error}"
        ) from None
    claim = claimed_as(suite_file.read, path, "--run-file", force=force, tell=progress.note)
    with progress, claim as known, scratch(cache_directory()) as folder:
        place = suite_folder(start) if request.asv else folder_of(request.tests, start)
        project = of_suite(start, place)
        if not place.is_relative_to(project.repository):
            raise InvalidInputError(f"{place}: not in the repository {project.repository}")
        if lacks := unbuilt(project):
            progress.note(f"warning: {lacks}")
        suite = place.relative_to(project.repository).as_posix()
        tests = node_ids(request.tests, start, project.repository / project.directory)
        checkouts = {}
        for label, text in (("A", request.a), ("B", request.b)):
            checkouts[label] = check_out(
                project,
                resolve(project.repository, text),
                label,
                folder / label,
                suite,
                progress.note,
                timeout=request.build_timeout,
                retry_failed=request.retry_build,
            )
        a, b = checkouts["A"], checkouts["B"]
        if a.side.content == b.side.content and not request.even_if_same:
            return SuiteEnd(None)
        run = _run_of(request, known, path, a, b, [request.asv] if request.asv else tests)
        work = folder / "work"
        work.mkdir()
        pair: AsvPair | PytestPair
        if request.asv:
            pair = AsvPair(a, b, suite, work, project.repository, request.timeout)
        else:
            pair = PytestPair(a, b, tests, work, project.repository, request.timeout)
        end = SuiteEnd(run)
        with pair:
            if not run.cases:
                run.cases, run.notes = (
                    pair.discover(request.asv) if isinstance(pair, AsvPair) else pair.discover()
                )
            _measure(request, run, pair, path, progress, end)
        return end


def _run_of(
    request: SuiteRequest,
    old: SuiteRun | None,
    path: Path,
    a: Checkout,
    b: Checkout,
    asked: list[str],
) -> SuiteRun:
    """A new run, or `old`, which the file holds, if it is of the same comparison."""
    new = SuiteRun(
        flashbench=__version__,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        tool="asv" if request.asv else "pytest-benchmark",
        asked=asked,
        a=a.side,
        b=b.side,
        tolerance=request.tolerance,
        confidence=request.confidence,
        hostname=platform.node(),
        cpu=cpu_name(),
        python=platform.python_version(),
    )
    if old is None:
        return new
    grown = msgspec.structs.replace(
        new, created=old.created, flashbench=old.flashbench, cases=old.cases, notes=old.notes
    )
    if msgspec.structs.replace(grown, launches=old.launches) != old:
        raise InvalidInputError(
            f"{path}: holds another comparison; name another file with --run-file, or replace it "
            "with --force"
        )
    return old


def _measure(
    request: SuiteRequest,
    run: SuiteRun,
    pair: AsvPair | PytestPair,
    path: Path,
    progress: Progress,
    end: SuiteEnd,
) -> None:
    announced = False
    with _interrupts(end, run, path):
        while cases := begun(run, request.launches):
            launch = run.launches[-1]
            spent, began = launch.seconds, monotonic()
            saved = began
            begins = cases[0].name not in first_launches(run)
            progress.begin(len(cases), run.seconds / max(1, launch.index))
            with closing(pair.launch(launch.index, cases)) as results:
                for result in results:
                    launch.results.append(result)
                    launch.seconds = spent + monotonic() - began
                    progress.step(0.0)
                    if launch.seconds > _TELL_SECONDS and not announced and not launch.index:
                        announced = True
                        if verdicts_take(run, len(cases)) > _LONG_SECONDS:
                            progress.note(forecast(run, len(cases)))
                    if monotonic() - saved > _SAVE_SECONDS:
                        _save(run, path)
                        saved = monotonic()
                    left = None if request.budget is None else request.budget - run.seconds
                    left = until_deadline(left)
                    end.over_budget = left is not None and left <= 0
                    if end.over_budget or (
                        left is not None
                        and begins
                        and len(launch.results) % pair.together == 0
                        and verdicts_take(run, len(launch.results) + pair.together) > left
                    ):
                        break
            launch.complete = not end.over_budget
            _save(run, path)
            progress.note(
                f"launch {launch.index + 1}: {len(launch.results)} of {len(run.cases)} benchmarks, "
                f"{launch.seconds:.1f} s"
            )
            if end.over_budget:
                return


def begun(run: SuiteRun, launches: int) -> list[SuiteCase]:
    """What is to be measured in the last launch: the rest of one that was cut short, or in a new
    one the cases that have launches, else those that a budget has left for later; nothing if all
    is decided or measured in so many launches."""
    cut = run.launches.pop() if run.launches and not run.launches[-1].complete else None
    now, first = len(run.launches), first_launches(run)
    left = [one for one in open_cases(run) if now - first.get(one.name, now) < launches]
    cases = [one for one in left if one.name in first] or left
    if cut is not None:
        run.launches.append(cut)
        known = {result.case for result in cut.results}
        if rest := [case for case in cases if case.name not in known]:
            return rest
        cut.complete = True
        return begun(run, launches)
    if cases:
        run.launches.append(SuiteLaunch(index=len(run.launches)))
    return cases


def first_launches(run: SuiteRun) -> dict[str, int]:
    """The launch that began each case, if one has."""
    latest_first = reversed(run.launches)
    return {result.case: one.index for one in latest_first for result in one.results}


def verdicts_take(run: SuiteRun, cases: int) -> float:
    """Seconds of the launches that so many cases need for clear verdicts after the last one, by
    what a result has taken in that."""
    needed = launches_needed_tight((1 - run.confidence) / len(run.cases))
    launch = run.launches[-1]
    return cases * (needed - 1) * launch.seconds / len(launch.results)


def forecast(run: SuiteRun, cases: int) -> str:
    """A line on what so many cases will take, by what the last launch has measured."""
    launch = run.launches[-1]
    one = launch.seconds / len(launch.results)
    total = one * cases + verdicts_take(run, cases)
    return (
        f"{cases} benchmarks of {one:.1f} s each: a launch takes about {one * cases / 60:.0f} min, "
        f"verdicts on all about {total / 3600:.1f} h; name fewer, or give a budget, which is spent "
        "on some until they are decided"
    )


@contextmanager
def _interrupts(end: SuiteEnd, run: SuiteRun, path: Path) -> Iterator[None]:
    """Ctrl-C and SIGTERM end it; what was measured is saved."""
    try:
        with signals_as_interrupt():
            yield
    except KeyboardInterrupt:
        end.interrupted = True
        with signals_ignored():
            if not any(launch.results for launch in run.launches):
                raise NotMeasuredError("interrupted before anything was measured") from None
            _save(run, path)


def _save(run: SuiteRun, path: Path) -> None:
    try:
        suite_file.save(run, path)
    except OSError as error:
        raise NotMeasuredError(f"{path}: cannot be saved: {error.strerror}") from None
