"""The view of `flashbench profile`: times, floors and counters, one column per candidate; each
one's bottleneck, the evidence, and the usual next step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flashbench.metric import label_of
from flashbench.profile.bottleneck import find
from flashbench.profile.counters import PIPES, STALLS
from flashbench.profile.differences import differences
from flashbench.profile.floors import Floor, floors
from flashbench.profile.gpu_rules import busy_share, limiter, stalls
from flashbench.profile.model import CaseProfile, CountedKernel, Subject, Time
from flashbench.profile.roofline import roofline, text
from flashbench.profile.rule import Bottleneck
from flashbench.table import NONE, Cell, Column, Document, Note, Value, digits, text_cell
from flashbench.views.frame import cost_columns, spent_cells

_STALLS_SHOWN = 4
_NAME_WIDTH = 100


_Counters = dict[str, float]
_OfKernel = Callable[[_Counters], float | str | None]
_OfSubject = Callable[[Subject], float | str | None]


@dataclass(frozen=True, slots=True)
class _Line:
    """A row: a number, a text or nothing for each candidate."""

    part: str
    name: str
    unit: str
    value: _OfSubject


def document(profile: CaseProfile) -> Document:
    """The table; with two candidates, the ratio of the first to the second."""
    known = floors(profile.case, profile.ceilings, profile.metric) if profile.ceilings else []
    several = len(profile.subjects) == 2
    cost = spent_cells(profile.spent)  # of all of it: the counters of one call are read together
    rows = [row | cost for line in _lines(profile, known) if (row := _row(profile, line))]
    columns = [
        Column("part", "part", numeric=False, identifies=True),
        Column("counter", "counter", numeric=False, identifies=True),
        Column("unit", "unit", numeric=False),
        *(Column(_key(number), one.candidate.name) for number, one in enumerate(profile.subjects)),
        *([Column("ratio", "ratio")] if several else []),
        *cost_columns(),
    ]
    found = {
        one.candidate.name: find(profile, one)
        for one in profile.subjects
        if one.status in ("ok", "wrong")
    }
    return Document(
        view="profile",
        header=_header(profile),
        columns=columns,
        rows=rows,
        summary=profile.spent.summary()
        | {f"bottleneck:{name}": _summary(one) for name, one in found.items()},
        footer=_footer(profile, found),
        notes=_notes(profile),
    )


def _header(profile: CaseProfile) -> list[str]:
    environment, case = profile.environment, profile.case
    machine = environment.gpu if case.device == "cuda" else environment.cpu
    how = ""
    if case.device == "cuda":
        how = ", cold L2" if profile.cold else ", warm L2"
    tool = f"; {profile.tool}, clocks left alone" if profile.tool.startswith("ncu") else ""
    if profile.tool and not tool:
        tool = f"; {profile.tool}"
    lines = [f"profile of {case.id} on {machine or 'an unknown device'}{how}{tool}"]
    if profile.ceilings:
        lines.append(
            f"floors: the least time by what this machine was measured to do on "
            f"{profile.ceilings.measured[:10]}, as percent of the time of a call"
        )
    for one in profile.subjects:
        kernel = one.longest
        if kernel is not None:
            lines.append(f"{one.candidate.name}: {_kernels(one, kernel)}")
    return lines


def _kernels(one: Subject, kernel: CountedKernel) -> str:
    name = kernel.name if len(kernel.name) <= _NAME_WIDTH else f"{kernel.name[:_NAME_WIDTH]}..."
    total = sum(each.took for each in one.kernels)
    if len(one.kernels) == 1 or not total:
        return f"1 kernel: {name}" if len(one.kernels) == 1 else f"{len(one.kernels)} kernels"
    share = 100 * kernel.took / total
    return f"{len(one.kernels)} kernels; counters are of the longest, {share:.0f} % of them: {name}"


def _key(number: int) -> str:
    return f"value_{number + 1}"


def _row(profile: CaseProfile, line: _Line) -> dict[str, Cell] | None:
    values = [line.value(one) for one in profile.subjects]
    if all(value is None for value in values):
        return None
    if line.part == "instructions" and not any(values):
        return None  # unused pipes
    row = {
        "part": text_cell(line.part),
        "counter": text_cell(line.name),
        "unit": text_cell(line.unit),
    }
    row |= {_key(number): _cell(value, line.unit) for number, value in enumerate(values)}
    if len(values) == 2:
        row["ratio"] = _ratio(*values)
    return row


def _cell(value: float | str | None, unit: str) -> Cell:
    if value is None:
        return NONE
    if isinstance(value, str):
        return text_cell(value)
    if unit == "%":
        small = 0 < abs(value) < 0.1
        return Cell(value, f"{value:.1g}" if small else f"{value:.1f}")
    return Cell(value, f"{value:.0f}" if value == round(value) < 1e9 else digits(value))


def _ratio(first: float | str | None, second: float | str | None) -> Cell:
    if isinstance(first, str) or isinstance(second, str) or first is None or not second:
        return NONE
    return Cell(first / second, f"{first / second:.3g}")


def _lines(profile: CaseProfile, known: Sequence[Floor]) -> list[_Line]:
    lines = [_Line("time", label_of(profile.metric), "us", lambda one: _time(profile, one))]
    if profile.case.device == "cuda":
        lines.append(_Line("time", "under ncu, all kernels", "us", _counted_time))
    lines += [_floor(profile, floor) for floor in known]
    stages = dict.fromkeys(stage for one in profile.subjects for stage in one.variants)
    lines += [_Line("stages", f"{stage} costs", "%", _stage(profile, stage)) for stage in stages]
    if profile.case.device == "cpu":
        return lines + [_Line("perf", name, unit, value) for name, unit, value in _OF_CPU]
    lines += [_Line(part, name, unit, _of_longest(value)) for part, name, unit, value in _OF_GPU]
    return lines + [
        _Line("stalls", STALLS[name], "%", _stalled(name)) for name in _stalls_shown(profile)
    ]


def _stage(profile: CaseProfile, stage: str) -> _OfSubject:
    """The share of a call's time that is saved without the stage."""

    def share(one: Subject) -> float | None:
        whole, rest = one.times.get(profile.metric), one.variants.get(stage)
        if whole is None or rest is None or _overlap(whole, rest):
            return None
        return 100 * (1 - rest.median / whole.median)

    return share


def _overlap(one: Time, other: Time) -> bool:
    """Whether the quartiles of two times overlap."""
    return one.low <= other.high and other.low <= one.high


def _quartiles(time: Time) -> str:
    return f"{digits(time.low * 1e6)} to {digits(time.high * 1e6)} us"


def _stalled(name: str) -> _OfSubject:
    return _of_longest(lambda counters: dict(stalls(counters)).get(name))


def _time(profile: CaseProfile, one: Subject) -> float | None:
    time = one.times.get(profile.metric)
    return time.median * 1e6 if time else None


def _counted_time(one: Subject) -> float | None:
    counted = [
        kernel.counters["duration"] for kernel in one.kernels if "duration" in kernel.counters
    ]
    return 1e6 * sum(counted) if counted else None


def _floor(profile: CaseProfile, floor: Floor) -> _Line:
    def share(one: Subject) -> float | None:
        time = one.times.get(profile.metric)
        return 100 * floor.seconds / time.median if time else None

    name = f"{floor.name}: {floor.seconds * 1e6:.4g} us, {floor.work} at {floor.rate}"
    if floor.name == "launch":
        name = f"launch: {floor.rate} for {floor.work}"
    return _Line("floors", name, "%", share)


def _of_longest(value: _OfKernel) -> _OfSubject:
    def of(one: Subject) -> float | str | None:
        kernel = one.longest
        return value(kernel.counters) if kernel is not None and kernel.counters else None

    return of


def _get(name: str, factor: float = 1.0) -> Callable[[_Counters], float | None]:
    return lambda counters: counters[name] * factor if name in counters else None


def _conflicts(counters: _Counters) -> float | None:
    cycles = counters.get("shared_cycles")
    return 100 * counters.get("conflicts", 0.0) / cycles if cycles else None


def _shared(counters: _Counters) -> float | None:
    if "shared_static" not in counters:
        return None
    return counters["shared_static"] + counters.get("shared_dynamic", 0.0)


def _pipe(name: str) -> _OfKernel:
    """The share of one pipe in all instructions."""

    def share(counters: _Counters) -> float | None:
        total, own = counters.get("instructions"), counters.get(f"pipe_{name}")
        return 100 * own / total if total and own is not None else None

    return share


_OF_GPU: tuple[tuple[str, str, str, _OfKernel], ...] = (
    ("throughput", "tensor cores", "%", _get("tensor")),
    ("throughput", "exponential unit (XU)", "%", _get("xu")),
    ("throughput", "FMA pipe", "%", _get("fma")),
    ("throughput", "integer and logic pipe", "%", _get("alu")),
    ("throughput", "shared memory", "%", _get("shared_share")),
    ("throughput", "L1", "%", _get("l1")),
    ("throughput", "L2", "%", _get("l2")),
    ("throughput", "device memory", "%", _get("dram")),
    ("throughput", "cycles with an instruction issued", "%", _get("issue")),
    ("memory", "read from device memory", "MB", _get("dram_read", 1e-6)),
    ("memory", "written to device memory", "MB", _get("dram_write", 1e-6)),
    ("memory", "through L2", "MB", _get("l2_bytes", 1e-6)),
    ("memory", "L2 hits", "%", _get("l2_hits")),
    ("memory", "L1 hits", "%", _get("l1_hits")),
    ("memory", "bank conflicts", "", _get("conflicts")),
    ("memory", "bank conflicts in the cycles of shared memory", "%", _conflicts),
    ("occupancy", "achieved", "%", _get("occupancy")),
    ("occupancy", "possible", "%", _get("occupancy_possible")),
    ("occupancy", "limited by", "", lambda counters: limiter(counters) or None),
    ("launch", "blocks", "", _get("grid")),
    ("launch", "threads a block", "", _get("block")),
    ("launch", "registers a thread", "", _get("registers")),
    ("launch", "shared memory a block", "B", _shared),
    ("launch", "waves of blocks", "", _get("waves")),
    ("launch", "time that an SM has work", "%", busy_share),
    ("instructions", "of a warp", "", _get("instructions")),
    *(("instructions", f"of them by {words}", "%", _pipe(name)) for name, words in PIPES.items()),
)


def _a_call(name: str) -> Callable[[Subject], float | None]:
    return lambda one: one.counters.get(name)


def _quotient(top: str, bottom: str) -> Callable[[Subject], float | None]:
    def of(one: Subject) -> float | None:
        below = one.counters.get(bottom)
        return one.counters[top] / below if below and top in one.counters else None

    return of


_OF_CPU: tuple[tuple[str, str, Callable[[Subject], float | None]], ...] = (
    ("busy threads", "", _quotient("task-clock", "seconds")),
    ("instructions a cycle", "", _quotient("instructions", "cycles")),
    ("cycles a call", "", _a_call("cycles")),
    ("instructions a call", "", _a_call("instructions")),
    ("last-level cache misses a call", "", _a_call("cache-misses")),
    ("L1 misses a call", "", _a_call("L1-dcache-load-misses")),
    ("mispredicted branches a call", "", _a_call("branch-misses")),
    ("context switches a call", "", _a_call("context-switches")),
    ("page faults a call", "", _a_call("page-faults")),
)


def _stalls_shown(profile: CaseProfile) -> list[str]:
    """The largest stall reasons of any candidate, largest first."""
    largest: dict[str, float] = {}
    for one in profile.subjects:
        kernel = one.longest
        for name, share in stalls(kernel.counters) if kernel else []:
            largest[name] = max(largest.get(name, 0.0), share)
    return sorted(largest, key=lambda name: -largest[name])[:_STALLS_SHOWN]


def _summary(found: Bottleneck) -> dict[str, Value]:
    return {
        "bottleneck": found.name,
        "because": "; ".join(found.because),
        "next": "; ".join(found.next),
    }


def _footer(profile: CaseProfile, found: dict[str, Bottleneck]) -> list[str]:
    lines = []
    for name, one in found.items():
        lines.append(f"{name}: bound by {one.name}: {'; '.join(one.because)}")
        if one.next:
            lines.append(f"  next: {'; '.join(one.next)}")
    if len(profile.subjects) == 2:
        new, old = profile.subjects
        if said := differences(old, new, profile.metric):
            lines.append(f"{new.candidate.name} against {old.candidate.name}: {said}")
    line = roofline(profile)
    spent = profile.spent
    return [*lines, *(text(line) if line else []), *([spent.line] if spent else [])]


def _notes(profile: CaseProfile) -> list[Note]:
    notes = []
    for one in profile.subjects:
        name = one.candidate.name
        if one.status != "ok":
            notes.append(Note("status", f"{name} is {one.status}: {one.reason}"))
        if one.without and one.without != one.reason:
            notes.append(Note("no-counters", f"{name}: {one.without}"))
        whole = one.times.get(profile.metric)
        for stage, rest in one.variants.items():
            if whole and _overlap(whole, rest):
                spreads = f"{_quartiles(whole)}, without it {_quartiles(rest)} (quartiles)"
                said = f"{name}: what {stage} costs is lost in noise: {spreads}"
                notes.append(Note("noise", said))
        for kernel in one.kernels if one.without else []:
            if kernel.seconds is not None:
                took = f"{kernel.seconds * 1e6:.4g} us by torch's profiler"
                notes.append(Note("kernel", f"{name}: {took}: {kernel.name[:_NAME_WIDTH]}"))
    return notes
