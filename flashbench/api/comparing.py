"""Compare from Python: `flashbench.compare`."""

import inspect
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Literal

from flashbench import defaults, operations
from flashbench.api.arguments import checked
from flashbench.api.cases import Cases, Causal, Layout, plan_of_cases
from flashbench.api.measuring import finished
from flashbench.api.run import Run
from flashbench.api.verdicts import Verdicts
from flashbench.case import DtypeName
from flashbench.comparing.files import ONLY_REVISIONS, is_file, judge, require_files
from flashbench.comparing.revisions import RevisionRequest, compare_revisions
from flashbench.comparing.rule import Rule
from flashbench.errors import InvalidInputError
from flashbench.measuring.claim import claimed, new_run_file
from flashbench.measuring.plan import Plan
from flashbench.measuring.progress import Progress, Silent, make_progress
from flashbench.operations.chosen import chosen
from flashbench.report import Report
from flashbench.revisions import WORKTREE
from flashbench.runfile import Processes, RunFile
from flashbench.suites.comparing import NOT_OF_SUITES, SuiteRequest, compare_suites
from flashbench.suites.judging import report_suite

Side = str | Path | Run
_OF_FILES = {"a", "b", "metric", "tolerance", "confidence", "allow", "progress"}
_NOT_OF_SUITES = {"metric", "cases", "operation", "dtypes", "causal", "layout", "device", "samples"}
_NOT_OF_SUITES |= {"min_sample", "seed", "threads", "processes"}


@checked("compare")
def compare(
    a: Side,
    b: Side | None = None,
    *,
    metric: str | None = None,
    tolerance: float | None = None,
    confidence: float | None = None,
    allow: Collection[str] = (),
    asv: str = "",
    pytest: str | Sequence[str] = (),
    cases: Cases | None = None,
    operation: str | None = None,
    dtypes: Sequence[DtypeName] | None = None,
    causal: Causal | None = None,
    layout: Layout | None = None,
    device: Literal["auto", "cpu", "cuda"] = "auto",
    launches: int | None = None,
    samples: int = defaults.SAMPLES,
    min_sample: float | None = None,
    seed: int = defaults.SEED,
    threads: int | None = None,
    timeout: float = defaults.TIMEOUT_SECONDS,
    budget: float | None = None,
    processes: Literal["auto"] | Processes = "auto",
    path: str | Path | None = None,
    force: bool = False,
    progress: bool = True,
) -> Verdicts:
    """Judge B against A, as `flashbench compare` does.

    a, b: two runs, or files (also of asv, pytest-benchmark and pyperf, or folders of such), with
    the baseline as the control; or two git revisions of the project here, which are built and
    measured in the same launches until every case is decided ("WORKTREE" is the working tree, and
    the default for b). A string that names a file means the file.

    metric, tolerance, confidence: how to decide; None: as a file of two revisions was decided, else
    0.01 (1 %), for revisions measured here what this machine can reach, and 0.95. allow:
    "different-machine". asv, pytest: of two revisions measure the benchmarks that a regular
    expression finds in the asv suite here, or these tests with pytest-benchmark, which have cases
    and samples of their own. The rest is for revisions, as for `measure`; launches: at most, per
    case, by default 40, or 200 within a budget; path: the run file, by default
    compare-<date>-<time>.json.

    Raises InvalidInputError; NotMeasuredError if a build fails or nothing could be measured;
    KeyboardInterrupt as `measure` does.
    """
    given = _given(locals())
    for side in (a, WORKTREE if b is None else b):
        if not isinstance(side, str | Path | Run) or side == "":
            raise InvalidInputError(f"{side!r:.80} is no run, file or revision")
    names = [one.path if isinstance(one, Run) else one for one in (a, b) if one is not None]
    if asv or pytest:
        _refuse(given & _NOT_OF_SUITES, NOT_OF_SUITES)
    elif any(map(is_file, names)):
        _refuse(given - _OF_FILES, ONLY_REVISIONS)
        require_files(*names)
        return _judged(a, b, Rule(metric, tolerance, confidence), allow)
    most = launches or defaults.launches_until_decided(budget=budget is not None)
    told = make_progress() if progress else Silent()
    file = new_run_file("compare") if path is None else Path(path)
    texts = str(a), WORKTREE if b is None else str(b)
    confidence = defaults.CONFIDENCE if confidence is None else confidence
    if asv or pytest:
        request = SuiteRequest(
            *texts,
            asv,
            pytest,
            tolerance=defaults.TOLERANCE if tolerance is None else tolerance,
            confidence=confidence,
            launches=most,
            timeout=timeout,
            budget=budget,
        )
        return _of_suites(request, file, told, force=force)
    known = operations.named(chosen(operation, of_revisions=True))
    plan = Plan(
        **plan_of_cases(known, cases, dtypes, causal, layout, device),
        candidates=[],
        launches=most,
        samples=samples,
        min_sample_seconds=min_sample,
        seed=seed,
        threads=threads,
        timeout_seconds=timeout,
        budget_seconds=budget,
        processes=processes,
        metrics=[metric] if metric else [],
        operation=known.name,
    )
    asked = RevisionRequest(
        *texts,
        plan,
        tolerance=tolerance,
        confidence=confidence,
        budget=budget,
        usual_launches=launches is None,
    )
    with claimed(file, "path=", force=force, tell=told.note) as resumed:
        end = compare_revisions(asked, file, "path=", resumed, told, told.note)
    return _of_same(*texts) if end is None else finished(end, file).compare()


def _of_suites(request: SuiteRequest, file: Path, progress: Progress, *, force: bool) -> Verdicts:
    if request.asv and request.tests:
        raise InvalidInputError("asv and pytest are two suites: compare one, then the other")
    end = compare_suites(request, file, progress, Path.cwd(), force=force)
    if end.run is None:
        return _of_same(request.a, request.b)
    if end.interrupted:
        kept = len(end.run.launches)
        raise KeyboardInterrupt(
            f"interrupted; {kept} launch{'es are' if kept != 1 else ' is'} kept: "
            f"flashbench.compare({str(file)!r}); the same call with path={str(file)!r} resumes"
        )
    found = report_suite(end.run)
    return Verdicts(found.report, found)


def _of_same(a: str, b: str) -> Verdicts:
    report = Report((), [], [], {}, defaults.TOLERANCE, defaults.ALPHA)
    return Verdicts(report, same_build=f"{a} against {b}")


def _judged(a: Side, b: Side | None, said: Rule, allow: Collection[str]) -> Verdicts:
    found = judge(_measured(a), None if b is None else _measured(b), said, allow=allow)
    if isinstance(found, Report):
        return Verdicts(found)
    return Verdicts(found.report, found)


def _measured(side: Side) -> Path | RunFile:
    return side.file if isinstance(side, Run) else Path(side)


def _given(arguments: Mapping[str, object]) -> set[str]:
    """The names of arguments that are not the defaults."""
    known = inspect.signature(compare).parameters
    return {name for name, value in arguments.items() if value != known[name].default}


def _refuse(names: Collection[str], why: str) -> None:
    """Raise InvalidInputError if something is given that would be ignored."""
    if names:
        raise InvalidInputError(f"{min(names)} {why}")
