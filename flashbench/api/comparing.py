"""Compare from Python: `flashbench.compare`."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from flashbench import defaults
from flashbench.api.arguments import checked, command_options, in_parameters, project_settings
from flashbench.api.cases import Cases, CausalName, LayoutName, plan_fields
from flashbench.api.measuring import finished
from flashbench.api.run import Run
from flashbench.api.verdicts import Verdicts
from flashbench.case import DtypeName
from flashbench.comparing.files import ONLY_REVISIONS, is_file, judge, require_files
from flashbench.comparing.revisions import RevisionRequest, compare_revisions
from flashbench.comparing.rule import Rule, default_rule
from flashbench.errors import InvalidInputError
from flashbench.measuring.claim import claimed, new_run_file
from flashbench.measuring.plan import Plan
from flashbench.measuring.progress import Progress, Silent, make_progress
from flashbench.measuring.requested import price_options
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
_OF_BUILDS = ("build_timeout", "retry_build", "even_if_same")


@checked("compare")
def compare(
    a: Side,
    b: Side | None = None,
    *,
    metric: str | None = None,
    tolerance: float | None = None,
    confidence: float | None = None,
    allow: Collection[str] | None = None,
    asv: str | None = None,
    pytest: str | Sequence[str] | None = None,
    cases: Cases | None = None,
    operation: str | None = None,
    dtypes: Sequence[DtypeName] | None = None,
    causal: CausalName | None = None,
    layout: LayoutName | None = None,
    device: Literal["auto", "cpu", "cuda"] | None = None,
    launches: int | None = None,
    samples: int | None = None,
    min_sample: float | None = None,
    seed: int | None = None,
    threads: int | None = None,
    timeout: float | None = None,
    budget: float | None = None,
    processes: Literal["auto"] | Processes | None = None,
    path: str | Path | None = None,
    force: bool | None = None,
    progress: bool = True,
) -> Verdicts:
    """Judge B against A, as `flashbench compare` does.

    a, b: two runs, or files (also of asv, pytest-benchmark and pyperf, or folders of such), with
    the baseline as the control; or two git revisions of the project here, which are built and
    measured in the same launches until every case is decided ("WORKTREE" is the working tree, and
    the default for b). A string that names a file means the file.

    A parameter that is None takes what [tool.flashbench.compare] of the project here sets, else the
    default of the command.

    metric, tolerance, confidence: how to decide; None: as a file of two revisions was decided, else
    the settings, else 0.01 (1 %), for revisions measured here what this machine can reach, and
    0.95. allow: "different-machine". asv, pytest: of two revisions measure the benchmarks that a
    regular expression finds in the asv suite here, or these tests with pytest-benchmark, which have
    cases and samples of their own. The rest is for revisions, as for `measure`; launches: at most,
    per case, by default 40, or 200 within a budget; path: the run file, by default
    compare-<date>-<time>.json.

    Raises InvalidInputError; NotMeasuredError if a build fails or nothing could be measured;
    KeyboardInterrupt as `measure` does.
    """
    given = {name: value for name, value in locals().items() if value is not None}
    settings = project_settings("compare")
    said: dict[str, Any] = {**settings, **given}
    options: dict[str, Any] = {**command_options("compare"), **given}
    for side in (a, WORKTREE if b is None else b):
        if not isinstance(side, str | Path | Run) or side == "":
            raise InvalidInputError(f"{side!r:.80} is no run, file or revision")
    names = [one.path if isinstance(one, Run) else one for one in (a, b) if one is not None]
    asked = {name for name, value in given.items() if value}
    of_suites = options["asv"] or options["pytest"]
    if of_suites:
        _refuse(asked & _NOT_OF_SUITES, NOT_OF_SUITES)
    elif any(map(is_file, names)):
        _refuse(asked - _OF_FILES, ONLY_REVISIONS)
        require_files(*names)
        rules = Rule(metric, tolerance, confidence), default_rule(settings)
        return _judged(a, b, rules, against=options["against"], allow=options["allow"])
    display = make_progress(in_parameters(compare)) if progress else Silent()
    file = Path(options["path"] or new_run_file("compare"))
    options["launches"] = said.get("launches") or defaults.most_launches(
        budget=options["budget"] is not None
    )
    options["tolerance"] = said.get("tolerance")
    texts = str(a), WORKTREE if b is None else str(b)
    if of_suites:
        return _of_suites(*texts, options, file, display)
    options["operation"] = chosen(options["operation"], of_revisions=True)
    request = RevisionRequest(
        *texts,
        Plan(
            **plan_fields(options, given),
            candidates=[],
            metrics=[options["metric"]] if options["metric"] else [],
        ),
        usual_launches="launches" not in said,
        **{name: options[name] for name in (*_OF_BUILDS, "tolerance", "confidence", "budget")},
    )
    with claimed(file, "path=", force=options["force"], tell=display.note) as resumed:
        end = compare_revisions(request, file, "path=", resumed, display, display.note)
    return _of_same(*texts) if end is None else finished(end, file).compare(against="sdpa")


def _of_suites(
    a: str, b: str, options: Mapping[str, Any], file: Path, progress: Progress
) -> Verdicts:
    if options["asv"] and options["pytest"]:
        raise InvalidInputError("asv and pytest are two suites: compare one, then the other")
    request = SuiteRequest(
        a,
        b,
        options["asv"] or "",
        options["pytest"],
        tolerance=options["tolerance"] or defaults.TOLERANCE,
        budget=price_options({**options, "device": "auto"})["budget_seconds"],
        **{name: options[name] for name in (*_OF_BUILDS, "confidence", "launches", "timeout")},
    )
    end = compare_suites(request, file, progress, Path.cwd(), force=options["force"])
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


def _judged(
    a: Side, b: Side | None, rules: tuple[Rule, Rule], *, against: str, allow: Collection[str]
) -> Verdicts:
    one, other = _measured(a), None if b is None else _measured(b)
    found = judge(one, other, *rules, against=against, allow=allow)
    if isinstance(found, Report):
        return Verdicts(found)
    return Verdicts(found.report, found)


def _measured(side: Side) -> Path | RunFile:
    return side.file if isinstance(side, Run) else Path(side)


def _refuse(names: Collection[str], why: str) -> None:
    """Raise InvalidInputError if something is given that would be ignored."""
    if names:
        raise InvalidInputError(f"{min(names)} {why}")
