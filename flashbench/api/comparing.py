"""Compare from Python: `flashbench.compare`."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Literal

from flashbench import operations
from flashbench.api.cases import Cases, Causal, Layout, plan_of_cases
from flashbench.api.measuring import finished, measuring
from flashbench.api.run import Run, load
from flashbench.api.verdicts import Verdicts
from flashbench.case import DtypeName
from flashbench.errors import InvalidInputError
from flashbench.measure.claim import new_run_file
from flashbench.measure.plan import Plan
from flashbench.measure.progress import Silent, make_progress
from flashbench.operations.chosen import chosen
from flashbench.other_tools.judge import report_foreign
from flashbench.report import Report, report_two
from flashbench.revisions import WORKTREE, read
from flashbench.revisions.announced import build_all
from flashbench.revisions.built import seconds_of, side_by_side
from flashbench.revisions.project import processes_for
from flashbench.runfile import Pair, Processes, RunFile
from flashbench.until_decided import measure_pair

Side = str | Path | Run


def compare(
    a: Side,
    b: Side | None = None,
    *,
    metric: str | None = None,
    tolerance: float = 0.01,
    confidence: float = 0.95,
    allow: Collection[str] = (),
    cases: Cases | None = None,
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

    metric, tolerance (0.01 is 1 %), confidence: how to decide. allow: "different-machine". The rest
    is for revisions, as for `measure`; launches: at most, per case; path: the run file, by default
    compare-<date>-<time>.json.

    Raises InvalidInputError; NotMeasuredError if a build fails or nothing could be measured;
    KeyboardInterrupt as `measure` does.
    """
    alpha = 1 - confidence
    if _is_measured(a) or _is_measured(b):
        return _judged(a, b, metric, tolerance, alpha, allow)
    told = make_progress() if progress else Silent()
    try:
        project = read(Path.cwd())
    except InvalidInputError as error:
        raise InvalidInputError(f"{a}: neither a file nor a revision: {error}") from None
    known = operations.named(chosen(None, of_revisions=True))
    fields = plan_of_cases(known, cases, dtypes, causal, layout, device)
    texts = {"A": str(a), "B": WORKTREE if b is None else str(b)}
    builds = build_all(project, texts, told.note)
    if builds["A"].is_same_as(builds["B"]):
        return Verdicts(
            Report((), [], [], {}, tolerance, alpha),
            same_build=f"{texts['A']} against {texts['B']}",
        )
    plan = Plan(
        **fields,
        **side_by_side(builds),
        build_seconds=seconds_of(builds.values()),
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
    file = new_run_file("compare") if path is None else Path(path)
    with measuring(file, plan, told, force=force) as (resumed, plan):
        run = finished(measure_pair(plan, file, told, resumed, check=True), file)
    return run.compare()


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
    tolerance: float,
    alpha: float,
    allow: Collection[str],
) -> Verdicts:
    if isinstance(b, str) and not _is_measured(b):
        raise InvalidInputError(f"{b}: no such file; {a} is one, so both must be")
    if isinstance(a, str) and not _is_measured(a):
        raise InvalidInputError(f"{a}: no such file; {b} is one, so both must be")
    if not isinstance(a, Run) and not isinstance(b, Run):
        foreign = report_foreign(
            Path(a),
            None if b is None else Path(b),
            metric=metric,
            against="sdpa",
            tolerance=tolerance,
            alpha=alpha,
            allow=allow,
        )
        if foreign is not None:
            return Verdicts(foreign.report, foreign)
    if b is None:
        only = a if isinstance(a, Run) else load(a)
        return only.compare(metric=metric, tolerance=tolerance, confidence=1 - alpha)
    return Verdicts(
        report_two(_file(a), _file(b), metric=metric, tolerance=tolerance, alpha=alpha, allow=allow)
    )


def _file(side: Side) -> RunFile:
    return side.file if isinstance(side, Run) else load(side).file
