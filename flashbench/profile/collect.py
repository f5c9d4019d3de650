"""Profile candidates on one case: one launch for times, one call for counters, and the ceilings."""

import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

import msgspec

from flashbench import __version__, machine
from flashbench.case import Case
from flashbench.cost.money import DevicePrice
from flashbench.cost.spent import has_result
from flashbench.errors import NotMeasuredError
from flashbench.measuring.advice import busy
from flashbench.measuring.protocol import Inspected, Setup
from flashbench.profile import ceilings, counters, ncu, perf, target
from flashbench.profile.model import CaseProfile, CountedKernel, Subject, Time
from flashbench.profile.ncu_csv import parse
from flashbench.profile.timing import Timed, time_case
from flashbench.runfile import Candidate, Ceilings, Environment, Result
from flashbench.streams import Tell

_HAS_A_CALL = ("ok", "wrong")  # statuses of candidates that can be called on the case


@dataclass(frozen=True, slots=True)
class ToProfile:
    """A candidate to profile. setup: how a worker loads it; name: its name there; label: its name
    in tables. variants: each named after the stage that it skips."""

    setup: Setup
    name: str
    label: str
    variants: tuple[Candidate, ...] = ()


@dataclass(frozen=True, slots=True)
class How:
    """cold: with an empty L2 cache. seed: of the inputs. timeout: seconds per step. stem: path of
    raw reports, without suffixes. tell: prints progress. keep: saves what there is so far. rate: of
    this machine, if known."""

    cold: bool
    seed: int
    timeout: float
    stem: Path
    tell: Tell
    keep: Callable[[CaseProfile], None]
    rate: DevicePrice | None = None


def collect(case: Case, asked: Sequence[ToProfile], how: How, command: list[str]) -> CaseProfile:
    """Profile every candidate; a failure is recorded with its reason and affects no other. The
    profile is saved after each step, so an early end loses nothing, and the account says its cost.

    Raises NotMeasuredError if the first cannot be called at all.
    """
    profile = CaseProfile(
        flashbench=__version__,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        command=command,
        case=case,
        cold=how.cold,
        subjects=[],
    )
    if how.rate is not None:
        profile.hourly_rate, profile.currency = how.rate.hourly, how.rate.currency
        profile.price = how.rate.source
    account = _Account(profile)
    try:
        _fill(profile, asked, how, account)
    except BaseException:  # also Ctrl-C: it is paid for
        account.ended(result=False)
        if not profile.subjects:
            profile.lost_seconds = profile.device_seconds
        how.tell(profile.spent.line)
        if profile.subjects:
            how.keep(profile)
        raise
    return profile


class _Account:
    """Keeps the seconds of a profile's steps, from now on."""

    def __init__(self, profile: CaseProfile) -> None:
        self._profile = profile
        self._began = self._step = monotonic()

    def ended(self, *, result: bool = True) -> None:
        """A step has ended, with or without a result."""
        now = monotonic()
        self._profile.device_seconds = round(now - self._began, 3)
        if not result:
            self._profile.lost_seconds = round(self._profile.lost_seconds + now - self._step, 3)
        self._step = now


def _fill(profile: CaseProfile, asked: Sequence[ToProfile], how: How, account: _Account) -> None:
    case, tool = profile.case, _tool(profile.case.device)
    profile.tool = tool.name
    for one in asked:
        how.tell(f"{one.label}: timing one launch")
        try:
            timed = time_case(one.setup, one.name, case, how.seed, how.timeout)
        except NotMeasuredError as error:
            if not profile.subjects:
                raise
            account.ended(result=False)
            profile.subjects.append(_failed(one, str(error)))
            how.keep(profile)
            continue
        subject = _timed(one, timed, tool)
        if not profile.subjects and subject.status not in _HAS_A_CALL:
            raise NotMeasuredError(f"{one.label}: {subject.status}: {subject.reason}")
        if not profile.subjects and (warning := busy(case, timed.environment, timed.state)):
            how.tell(warning)
        account.ended(result=has_result(timed.result))
        profile.environment = timed.environment
        profile.ceilings = machine.ceilings_of(timed.environment, case.device)
        profile.subjects.append(subject)
        how.keep(profile)
        _explain(subject, case, one, tool, how, account)
        how.keep(profile)
    if profile.ceilings is None:
        profile.ceilings = _ceilings(profile.environment, case.device, how.tell)
        account.ended(result=profile.ceilings is not None)
        how.keep(profile)


@dataclass(frozen=True, slots=True)
class _Tool:
    """The profiler: a program and its counters, or the reason why there is none."""

    path: str
    name: str
    metrics: tuple[str, ...] = ()
    without: str = ""


def _tool(device: str) -> _Tool:
    try:
        if device == "cpu":
            return _Tool(perf.find(), "perf stat")
        found = ncu.find()
        return _Tool(found, f"ncu {ncu.version(found)}".strip(), tuple(ncu.offered(found)))
    except ncu.CountersUnavailableError as error:
        return _Tool("", "", without=str(error))


def _failed(one: ToProfile, reason: str) -> Subject:
    candidate = Candidate(name=one.label, spec=one.name)
    return Subject(candidate=candidate, status="error", reason=reason, without=reason)


def _timed(one: ToProfile, timed: Timed, tool: _Tool) -> Subject:
    """Times and kernels of a launch."""
    candidate = timed.candidate
    candidate.name = one.label
    return Subject(
        candidate=candidate,
        status=timed.result.status,
        reason=timed.result.reason,
        times=_times(timed.result),
        kernels=_kernels(timed.inspected),
        without=tool.without or "the profile ended before that",
    )


def _explain(
    subject: Subject, case: Case, one: ToProfile, tool: _Tool, how: How, account: _Account
) -> None:
    """Add the counters of one more call, if available, else the times of variants."""
    without = tool.without
    if subject.status not in _HAS_A_CALL:
        without = subject.reason
    elif tool.path:
        how.tell(f"{one.label}: {tool.name} on one call")
        try:
            without = _count(subject, case, one, tool, how)
            account.ended()
        except NotMeasuredError as error:
            account.ended(result=False)
            without = str(error)
    subject.without = without
    if without and subject.times:
        _add_variants(subject, case, one, how, account)


def _add_variants(
    subject: Subject, case: Case, one: ToProfile, how: How, account: _Account
) -> None:
    """The time of a call without each stage, in its own launch; results are not checked."""
    for variant in one.variants:
        how.tell(f"{one.label} without {variant.name}: timing one launch")
        roots = one.setup.import_roots
        roots = {variant.name: roots[one.name]} if one.name in roots else {}
        setup = msgspec.structs.replace(one.setup, candidates=[variant], import_roots=roots)
        try:
            timed = time_case(setup, variant.name, case, how.seed, how.timeout, checked=False)
        except NotMeasuredError as error:
            account.ended(result=False)
            how.tell(f"warning: {error}")
            continue
        account.ended(result=has_result(timed.result))
        if timed.result.status != "ok":
            how.tell(f"warning: without {variant.name}: {timed.result.reason}")
        for time in _times(timed.result).values():  # of the one metric
            subject.variants[variant.name] = time


def _count(subject: Subject, case: Case, one: ToProfile, tool: _Tool, how: How) -> str:
    """Add the counters of one call to the subject; why some are missing, or "". Raises
    NotMeasuredError."""
    with tempfile.TemporaryDirectory(prefix="flashbench-profile-") as name:
        folder = Path(name)
        copies = folder / "copies"
        copies.mkdir()
        one.setup.copies = str(copies)
        file = folder / "job.json"
        job = target.Job(
            setup=one.setup, candidate=one.name, case=case, seed=how.seed, cold=how.cold
        )
        target.write(job, file)
        if case.device == "cpu":
            command = target.command(file)
            subject.counters, without = perf.collect(tool.path, command, how.timeout)
            return without
        safe = "".join(c if c.isalnum() or c in "._-" else "-" for c in one.label)
        report = how.stem.with_name(f"{how.stem.name}-{safe}.ncu-rep")
        text = ncu.collect(
            tool.path, report, target.command(file), tool.metrics, how.timeout, cold=how.cold
        )
    subject.report = report.name
    counted = [
        CountedKernel(name=row.name, counters=counters.read(row.values))
        for row in parse(text, str(report))
    ]
    if not counted:
        raise NotMeasuredError(f"{report}: ncu saw no kernel in the call")
    # ncu counts only kernels; copies and fills between them keep torch's profiler's times.
    others = [one for one in subject.kernels if one.name.startswith(("Memset", "Memcpy"))]
    subject.kernels = [*counted, *others]
    return ""


def _times(result: Result) -> dict[str, Time]:
    found = {}
    for timing in result.timings:
        seconds = sorted(timing.seconds)
        if len(seconds) >= 2:
            low, median, high = statistics.quantiles(seconds, n=4, method="inclusive")
            found[timing.metric] = Time(median=median, low=low, high=high)
    return found


def _kernels(inspected: Inspected | None) -> list[CountedKernel]:
    if inspected is None:
        return []
    pairs = zip(inspected.kernels, inspected.kernel_seconds, strict=True)
    return [CountedKernel(name=name, seconds=seconds) for name, seconds in pairs]


def _ceilings(environment: Environment, device: str, tell: Tell) -> Ceilings | None:
    """Measure this machine's ceilings; None if that fails."""
    tell("measuring what this machine does at most, once (`flashbench info --peak` again)")
    try:
        return ceilings.measure(device, environment.threads if device == "cpu" else None)
    except NotMeasuredError as error:
        tell(f"warning: no floors: {error}")
        return None
