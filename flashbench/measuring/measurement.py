"""Measure all candidates of one case in this process: check each, then time them interleaved."""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic

import torch

from flashbench.candidates import Loaded, reason
from flashbench.case import Case
from flashbench.errors import InvalidInputError
from flashbench.measuring import torch_settings
from flashbench.measuring.checks import WrongError, check_candidate, check_inputs, check_output
from flashbench.measuring.clock import Call, Clock, MetricUnavailableError, Output, Sampler
from flashbench.measuring.clock_cpu import CpuClock
from flashbench.measuring.environment import throttled
from flashbench.measuring.plan import derive_seed, passes
from flashbench.measuring.problem import OperationError, Problem, is_out_of_memory
from flashbench.measuring.refusal import is_guard
from flashbench.measuring.stopwatch import Stopwatch
from flashbench.metric import DEFAULT_METRIC
from flashbench.runfile import Result, ResultStatus, Timing
from flashbench.sample_counts import affordable_samples, split_samples

# The reason's prefix if a call ran code of another revision.
NOT_ITS_OWN = "not proven to run its own code"

OnPhase = Callable[[str, str], None]  # (candidate, its new phase)


class DeviceLostError(Exception):
    """A candidate left the GPU in a state that only a new process can recover from."""


@dataclass(frozen=True)
class MeasuringOptions:
    """How to measure a case. deadline: `time.monotonic` after which no block starts. checked:
    False for what leaves work out on purpose, to learn what that work costs."""

    samples: int
    seed: int
    full_check: bool = True
    deadline: float = math.inf
    checked: bool = True


@dataclass
class _Subject:
    """A candidate's state while a case is measured."""

    loaded: Loaded
    result: Result
    call: Call
    timings: dict[str, Timing] = field(default_factory=dict)
    unavailable: set[str] = field(default_factory=set)

    @property
    def alive(self) -> bool:
        return self.result.status == "ok"

    def fail(self, status: ResultStatus, why: str) -> None:
        """Discard a failed candidate's times: they would be read as its speed."""
        self.result.status = status
        self.result.reason = why
        self.timings.clear()

    def miss(self, metric: str, why: MetricUnavailableError) -> None:
        """Continue without a metric that is unavailable for this candidate."""
        self.timings.pop(metric, None)
        self.unavailable.add(metric)
        self.note_missing(metric, str(why))

    def note_missing(self, metric: str, why: str) -> None:
        before, reason = self.result.reason, f"no {metric}: {why}"
        self.result.reason = f"{before}; {reason}" if before else reason


def make_clock(
    device: str, min_sample_seconds: float, metrics: Sequence[str] | None = None
) -> Clock:
    """The clock of a device ("cpu" or "cuda"), for these metrics; None: all of them.

    An empty list: the one for verdicts. Raises InvalidInputError for a metric that the device
    lacks.
    """
    clock: Clock
    if device == "cpu":
        clock = CpuClock(min_sample_seconds)
    else:
        from flashbench.measuring.clock_cuda import CudaClock

        clock = CudaClock(min_sample_seconds)
    if metrics is None:
        return clock
    metrics = metrics or [DEFAULT_METRIC[device]]
    for metric in metrics:
        if metric not in clock.metrics:
            raise InvalidInputError(
                f"metric {metric!r} is not measured on {device}; it has {', '.join(clock.metrics)}"
            )
    clock.metrics = tuple(metrics)
    return clock


def measure_case(
    case: Case,
    candidates: Sequence[Loaded],
    clock: Clock,
    options: MeasuringOptions,
    on_phase: OnPhase = lambda candidate, doing: None,
    turn: Callable[[], bool] = lambda: False,
) -> list[Result]:
    """One result per candidate, in the given order. turn: returns when the next pass may begin, and
    whether another process measured meanwhile.

    A candidate's failures are results, not exceptions; only DeviceLostError is raised.
    """
    results = [Result(case=case.id, candidate=loaded.name, status="ok") for loaded in candidates]
    stopwatch = Stopwatch(on_phase, clock.metrics)
    try:
        _measure(case, candidates, results, clock, options, stopwatch, turn)
    finally:
        for result in results:
            stopwatch.write(result)
    return results


def _measure(
    case: Case,
    candidates: Sequence[Loaded],
    results: Sequence[Result],
    clock: Clock,
    options: MeasuringOptions,
    stopwatch: Stopwatch,
    turn: Callable[[], bool],
) -> None:
    """Fill in the results."""
    begin = stopwatch.begin

    def wait() -> bool:
        stopwatch.switch()  # another process measures meanwhile
        return turn()

    begin("", "inputs and reference")
    with torch.no_grad():
        try:
            problem = Problem(case, options.seed, options.full_check)
        except OperationError as error:
            for result in results:
                result.status, result.reason = "error", str(error)
            return
        except (RuntimeError, MemoryError) as error:
            status: ResultStatus = "out_of_memory" if is_out_of_memory(error) else "error"
            for result in results:
                result.status, result.reason = status, f"inputs and reference: {reason(error, [])}"
            return
        subjects = [
            _Subject(loaded, result, problem.bind(loaded.call))
            for loaded, result in zip(candidates, results, strict=True)
        ]
        for subject in subjects:
            begin(subject.loaded.name, "check")
            if options.checked:
                _check(subject, problem, clock)
            begin(subject.loaded.name, "proof call")
            _prove(subject, problem, clock)
        cut = False
        for metric in clock.metrics:
            cut = _time_metric(metric, subjects, problem, clock, options, begin, wait) or cut
    for subject in subjects:
        subject.result.timings = list(subject.timings.values())
        if subject.alive and cut and not _worth_keeping(subject, clock):
            subject.result.status = "over_budget"
            subject.result.reason = "the budget was spent while this case was measured"
        elif subject.alive:
            for timing in subject.result.timings:
                if not timing.seconds and subject.result.dropped_blocks:
                    subject.note_missing(timing.metric, "all blocks were throttled")


def _worth_keeping(subject: _Subject, clock: Clock) -> bool:
    """A case cut short by the budget counts if every metric had a whole A/B/B/A."""
    return all(
        metric in subject.unavailable
        or (metric in subject.timings and len(set(subject.timings[metric].block)) >= 2)
        for metric in clock.metrics
    )


def _check(subject: _Subject, problem: Problem, clock: Clock) -> None:
    with _failures_of(subject, problem, clock, first_call=True), subject.loaded.scope():
        correctness, seconds = check_candidate(problem, subject.call, clock.synchronize)
        subject.result.correctness = correctness
        subject.result.first_call_seconds = seconds


def _prove(subject: _Subject, problem: Problem, clock: Clock) -> None:
    """Fail a candidate that runs another revision's code, whether its result is right or wrong: the
    error may not be its own."""
    disproof = subject.loaded.disproof
    if disproof is None or subject.result.status not in ("ok", "wrong"):
        return
    with _failures_of(subject, problem, clock), subject.loaded.scope():
        if why := disproof(problem.bind(subject.loaded.call)):  # with what it prepares
            subject.fail("error", f"{NOT_ITS_OWN}: {why}")


def _time_metric(
    metric: str,
    subjects: Sequence[_Subject],
    problem: Problem,
    clock: Clock,
    options: MeasuringOptions,
    begin: OnPhase,
    turn: Callable[[], bool],
) -> bool:
    """Add one metric's timings to every live subject; True if the deadline cut it short."""
    samplers: dict[str, Sampler] = {}
    shares: dict[str, list[int]] = {}
    signs: dict[str, int] = {}
    for subject in subjects:
        if not subject.alive:
            continue
        if monotonic() > options.deadline:
            return True
        begin(subject.loaded.name, f"{metric} warm-up")
        with _failures_of(subject, problem, clock), subject.loaded.scope():
            try:
                sampler = clock.sampler(metric, subject.call)
            except MetricUnavailableError as error:
                subject.miss(metric, error)
                continue
            samplers[subject.loaded.name] = sampler
    lengths = {name: sampler.sample_seconds for name, sampler in samplers.items()}
    affordable = affordable_samples(lengths, options.samples, clock.max_metric_seconds)
    for name, wanted in affordable.items():
        shares[name] = split_samples(wanted)
    ready = [subject for subject in subjects if subject.loaded.name in samplers]
    for subject in ready:
        calls = samplers[subject.loaded.name].calls
        subject.timings[metric] = Timing(metric=metric, calls=calls, seconds=[], block=[])
    cut = False
    order_seed = derive_seed(options.seed, problem.case.id, metric, "order")
    of_torch = False  # whether the latest samples were of torch's own, whose threads the next share
    for block, order in enumerate(passes(len(ready), order_seed)):
        of_torch &= not turn()
        problem.flip()
        taken: list[tuple[_Subject, list[float]]] = []
        slow = throttled(problem.case.device)
        for subject in (ready[place] for place in order):
            name = subject.loaded.name
            if metric not in subject.timings or block >= len(shares[name]):
                continue
            if monotonic() > options.deadline:
                cut = True
                break
            begin(name, metric)
            if not (of_torch and subject.loaded.candidate.baseline):
                clock.rest()
            of_torch = subject.loaded.candidate.baseline
            with _failures_of(subject, problem, clock), subject.loaded.scope():
                try:
                    seconds = samplers[name].block(shares[name][block])
                except MetricUnavailableError as error:
                    subject.miss(metric, error)
                    continue
                taken.append((subject, seconds))
                signs[name] = problem.sign
        if cut:
            break  # a pass without all candidates has no pairs: drop it
        _keep(metric, block, taken, slow or throttled(problem.case.device))
    for subject in ready:
        name = subject.loaded.name
        if options.checked and metric in subject.timings and name in signs:
            begin(name, f"{metric} output check")
            with _failures_of(subject, problem, clock):
                _check_timed(problem, samplers[name].last, signs[name], metric)
    return cut


def _keep(
    metric: str, block: int, taken: Sequence[tuple[_Subject, list[float]]], throttled: bool
) -> None:
    for subject, seconds in taken:
        if throttled:
            subject.result.dropped_blocks += 1
        elif not all(0 < value < math.inf for value in seconds):
            subject.fail("error", f"{metric}: the clock gave {min(seconds)} s for a call")
        elif metric in subject.timings:
            timing = subject.timings[metric]
            # The GPU clock's precision; shorter files are read faster.
            timing.seconds += [float(f"{value:.7g}") for value in seconds]
            timing.block += [block] * len(seconds)


def _check_timed(problem: Problem, out: Output, sign: int, metric: str) -> None:
    check_output(problem, out, sign, f"the output of the timed calls ({metric}): ")
    check_inputs(problem)


@contextmanager
def _failures_of(
    subject: _Subject, problem: Problem, clock: Clock, first_call: bool = False
) -> Iterator[None]:
    """Turn a candidate's exception into its result and continue.

    first_call: a guard may refuse the case. Warnings are collected only there, outside timing:
    collecting costs time per call.
    """
    caught: list[warnings.WarningMessage] = []
    settings = torch_settings.current()
    try:
        if first_call:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                yield
        else:
            yield
    except WrongError as error:
        subject.fail("wrong", str(error))
        subject.result.correctness = error.correctness or subject.result.correctness
    except (Exception, SystemExit) as error:
        line = reason(error, caught)
        _ensure_device_lives(clock, line)
        if is_out_of_memory(error):
            subject.fail("out_of_memory", line)
            if problem.case.device == "cuda":
                torch.cuda.empty_cache()
        elif isinstance(error, Exception) and (
            subject.loaded.refuses(error) or (first_call and is_guard(error))
        ):
            subject.fail("unsupported", line)
        else:
            subject.fail("error", line)
    finally:
        changed = torch_settings.restore(settings)
        if changed and subject.alive:
            subject.fail(
                "wrong", f"changed torch's settings for everything that runs after it: {changed}"
            )
        if not subject.alive and not problem.unchanged():
            problem.restore()


def _ensure_device_lives(clock: Clock, line: str) -> None:
    try:
        clock.synchronize()
    except RuntimeError as error:
        raise DeviceLostError(line) from error
