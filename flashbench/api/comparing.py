"""Compare from Python: `flashbench.compare`."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Literal

from flashbench import operations
from flashbench.api.arguments import checked
from flashbench.api.cases import Cases, Causal, Layout, plan_of_cases
from flashbench.api.measuring import finished, measuring
from flashbench.api.run import Run, load
from flashbench.api.verdicts import Verdicts
from flashbench.case import DtypeName
from flashbench.errors import InvalidInputError
from flashbench.measuring.claim import new_run_file
from flashbench.measuring.plan import Plan
from flashbench.measuring.progress import Progress, Silent, make_progress
from flashbench.operations.chosen import chosen
from flashbench.other_tools.judge import report_foreign
from flashbench.report import DEFAULT_ALPHA, DEFAULT_TOLERANCE, Report, report_two
from flashbench.revisions import WORKTREE, read
from flashbench.revisions.announced import build_all
from flashbench.revisions.built import plan_of_builds
from flashbench.revisions.project import processes_for
from flashbench.runfile import Pair, Processes, RunFile
from flashbench.suites.comparing import SuiteRequest, compare_suites
from flashbench.suites.judging import report_suite
from flashbench.suites.suite_file import is_suite
from flashbench.suites.suite_file import load as load_suite
from flashbench.until_decided import measure_pair

Side = str | Path | Run


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
    launches: int = 40,
    samples: int = 40,
    min_sample: float | None = None,
    seed: int = 0,
    threads: int | None = None,
    timeout: float = 60.0,
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
    0.01 (1 %) and 0.95. allow: "different-machine". asv,
    pytest: of two revisions measure the benchmarks that a regular expression finds in the asv suite
    here, or these tests with pytest-benchmark; cases, dtypes and so on are then not used. The rest
    is for revisions, as for `measure`; launches: at most, per case; path: the run file, by default
    compare-<date>-<time>.json.

    Raises InvalidInputError; NotMeasuredError if a build fails or nothing could be measured;
    KeyboardInterrupt as `measure` does.
    """
    for side in (a, WORKTREE if b is None else b):
        if not isinstance(side, str | Path | Run) or side == "":
            raise InvalidInputError(f"{side!r:.80} is no run, file or revision")
    if _is_measured(a) or _is_measured(b):
        return _judged(a, b, metric, tolerance, confidence, allow)
    tolerance = DEFAULT_TOLERANCE if tolerance is None else tolerance
    confidence = 1 - DEFAULT_ALPHA if confidence is None else confidence
    alpha = 1 - confidence
    told = make_progress() if progress else Silent()
    file = new_run_file("compare") if path is None else Path(path)
    if asv or pytest:
        request = SuiteRequest(
            str(a),
            WORKTREE if b is None else str(b),
            asv,
            pytest,
            tolerance=tolerance,
            confidence=confidence,
            launches=launches,
            timeout=timeout,
            budget=budget,
        )
        return _of_suites(request, file, told, force=force)
    try:
        project = read(Path.cwd())
    except InvalidInputError as error:
        raise InvalidInputError(f"{a}: neither a file nor a revision: {error}") from None
    known = operations.named(chosen(operation, of_revisions=True))
    fields = plan_of_cases(known, cases, dtypes, causal, layout, device)
    texts = {"A": str(a), "B": WORKTREE if b is None else str(b)}
    builds = build_all(project, texts, told.note)
    if builds["A"].is_same_as(builds["B"]):
        return _of_same(texts["A"], texts["B"], tolerance, alpha)
    plan = Plan(
        **fields,
        **plan_of_builds(builds),
        launches=launches,
        samples=samples,
        min_sample_seconds=min_sample,
        seed=seed,
        threads=threads,
        timeout_seconds=timeout,
        budget_seconds=budget,
        processes=processes_for(project, processes),
        metrics=[metric] if metric else [],
        operation=known.name,
        pair=Pair(
            old="A", new="B", tolerance=tolerance, confidence=confidence, metric=metric or ""
        ),
    )
    with measuring(file, plan, told, force=force) as (resumed, plan):
        run = finished(measure_pair(plan, file, told, resumed, check=True), file)
    return run.compare()


def _of_suites(request: SuiteRequest, file: Path, progress: Progress, *, force: bool) -> Verdicts:
    if request.asv and request.tests:
        raise InvalidInputError("asv and pytest are two suites: compare one, then the other")
    end = compare_suites(request, file, progress, Path.cwd(), force=force)
    if end.run is None:
        return _of_same(request.a, request.b, request.tolerance, 1 - request.confidence)
    if end.interrupted:
        kept = len(end.run.launches)
        raise KeyboardInterrupt(
            f"interrupted; {kept} launch{'es are' if kept != 1 else ' is'} kept: "
            f"flashbench.compare({str(file)!r}); the same call with path={str(file)!r} resumes"
        )
    found = report_suite(end.run)
    return Verdicts(found.report, found)


def _of_same(a: str, b: str, tolerance: float, alpha: float) -> Verdicts:
    return Verdicts(Report((), [], [], {}, tolerance, alpha), same_build=f"{a} against {b}")


def _is_measured(side: Side | None) -> bool:
    """A run, a file, or a folder of files."""
    if isinstance(side, str):
        side = Path(side)
        return side.is_file() or side.suffix == ".json" or any(side.glob("*.json"))
    return side is not None


def _judged(
    a: Side,
    b: Side | None,
    metric: str | None,
    tolerance: float | None,
    confidence: float | None,
    allow: Collection[str],
) -> Verdicts:
    if isinstance(b, str) and not _is_measured(b):
        raise InvalidInputError(f"{b}: no such file; {a} is one, so both must be")
    if isinstance(a, str) and not _is_measured(a):
        raise InvalidInputError(f"{a}: no such file; {b} is one, so both must be")
    if b is None and not isinstance(a, Run) and is_suite(Path(a)):
        own = None if confidence is None else 1 - confidence
        found = report_suite(load_suite(Path(a)), tolerance, own)
        return Verdicts(found.report, found)
    limit = DEFAULT_TOLERANCE if tolerance is None else tolerance
    alpha = DEFAULT_ALPHA if confidence is None else 1 - confidence
    if not isinstance(a, Run) and not isinstance(b, Run):
        foreign = report_foreign(
            Path(a),
            None if b is None else Path(b),
            metric=metric,
            against="sdpa",
            tolerance=limit,
            alpha=alpha,
            allow=allow,
        )
        if foreign is not None:
            return Verdicts(foreign.report, foreign)
    if b is None:
        only = a if isinstance(a, Run) else load(a)
        return only.compare(metric=metric, tolerance=tolerance, confidence=confidence)
    return Verdicts(
        report_two(_file(a), _file(b), metric=metric, tolerance=limit, alpha=alpha, allow=allow)
    )


def _file(side: Side) -> RunFile:
    return side.file if isinstance(side, Run) else load(side).file
