"""The run file: one JSON document that holds everything one `flashbench run` measured.

docs/run-file.md describes the schema and the reading rules. Files are untrusted: they are decoded
into the types below and nothing else; reading one executes and imports nothing. Resuming one
(`flashbench run --resume`) does import the candidates that it names.
"""

from collections.abc import MutableSequence
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from flashbench.baseline_names import is_baseline_name
from flashbench.case import Case
from flashbench.damage import UNREADABLE, damage
from flashbench.errors import InvalidInputError
from flashbench.files import write_file
from flashbench.inputs import read_input

FORMAT = "flashbench-run"
VERSION = 1
# A time outside a picosecond to thirty years means damage.
MIN_SECONDS, MAX_SECONDS = 1e-12, 1e9
MAX_COUNT = 2**53  # dimensions, bytes, block numbers: the integers that a float holds
MAX_LAUNCHES = 10**6
MAX_BYTES = 2**31  # msgspec builds the whole document in memory

Status = Literal[
    "ok",
    "wrong",  # the output is wrong: no speed is reported
    "unsupported",  # the candidate does not support this case
    "error",  # it raised
    "crashed",  # the worker process died
    "timeout",  # the worker process hung and was killed
    "out_of_memory",
    "interrupted",  # Ctrl-C or SIGTERM came before its turn
    "over_budget",  # --budget was spent before its turn
]


# Unknown fields are ignored: a newer minor version may add some; a newer VERSION is refused.


class BuildIdentity(msgspec.Struct, kw_only=True):
    """The measured library. Empty strings for a candidate without a build (SDPA)."""

    revision: str = ""  # the user's name for it
    commit: str = ""
    dirty: bool = False
    source_hash: str = ""
    library_hash: str = ""

    @property
    def hashes(self) -> tuple[str, str]:
        """The hashes that tell builds apart; empty strings if nothing was built."""
        return self.source_hash, self.library_hash


class Candidate(msgspec.Struct, kw_only=True):
    """A named callable with the signature of SDPA.

    beside: for a baseline, the candidate in whose process it was measured; empty: the process
    shared by all.
    """

    name: str
    spec: str  # "flashbench", "sdpa", "sdpa:cudnn", or "module:function"
    baseline: bool = False  # True for SDPA's default and its backends
    beside: str = ""
    build: BuildIdentity = msgspec.field(default_factory=BuildIdentity)


class Environment(msgspec.Struct, kw_only=True):
    """The machine and software; strings as the tools report them, empty if unknown."""

    hostname: str = ""
    cpu: str = ""
    cpu_count: int = 0
    threads: int = 0
    memory_bytes: int = 0
    gpu: str = ""
    driver: str = ""
    cuda: str = ""
    torch: str = ""
    python: str = ""
    system: str = ""


Processes = Literal["shared", "paired"]


class Settings(msgspec.Struct, kw_only=True):
    """What was requested. A run is resumed with these; the command line may change some.

    processes: whether all candidates shared the process of a launch, or each had its own.
    """

    launches: int
    samples: int
    seed: int
    min_sample_seconds: float
    timeout_seconds: float
    budget_seconds: float | None = None
    shard: str = ""  # "2/4": results cover only that part of the cases; "": all of them
    metrics: list[str] | None = None  # None: all the device has; []: the one for verdicts
    processes: Processes = "shared"


class Correctness(msgspec.Struct, kw_only=True):
    """Against float64 by the rule of flashbench/reference.py; absolute errors."""

    max_error: float | None  # None: NaN, Inf or another shape
    bound: float
    rows_checked: int = 0  # query rows per head that were compared; 0: all


class Timing(msgspec.Struct, kw_only=True, gc=False):
    """One metric of one candidate on one case in one launch.

    seconds: one entry per sample, seconds per call (a sample averages `calls` calls).
    block: the A/B/B/A block of each sample; equal numbers were measured side by side.
    """

    metric: str  # "wall"; on a GPU also "gpu_warm", "gpu_cold", "graph"
    calls: int
    seconds: MutableSequence[float]
    block: list[int] = msgspec.field(default_factory=list)


class Result(msgspec.Struct, kw_only=True, gc=False):
    """The result of one candidate on one case in one launch."""

    case: str  # Case.id
    candidate: str  # Candidate.name
    status: Status
    reason: str = ""
    timings: list[Timing] = msgspec.field(default_factory=list)
    correctness: Correctness | None = None
    first_call_seconds: float | None = None
    peak_memory_bytes: int | None = None  # beyond the inputs, during one call
    kernels: list[str] = msgspec.field(default_factory=list)  # GPU kernels of one call
    dropped_blocks: int = 0  # throttled: dropped for every candidate alike
    device_seconds: float = 0.0  # spent on it alone: checks, warm-up, samples
    sampling_seconds: float = 0.0  # of these, its sampling


class DeviceState(msgspec.Struct, kw_only=True):
    """Clocks and temperature at one moment; None if unknown."""

    sm_clock_mhz: int | None = None
    power_watts: float | None = None
    temperature_celsius: int | None = None
    cpu_mhz: float | None = None
    load_average: float | None = None


class Launch(msgspec.Struct, kw_only=True):
    """One worker process, or one per candidate (more if one died): the unit of evidence."""

    index: int
    seed: int
    complete: bool = False
    started: str = ""  # ISO 8601, UTC
    device_seconds: float = 0.0
    start_seconds: float = 0.0  # of these, until the process could measure
    lost_seconds: float = 0.0  # without a result: a crash, a hang, what was measured again
    case_seconds: dict[str, float] = msgspec.field(default_factory=dict)  # by Case.id
    inspect_seconds: dict[str, float] = msgspec.field(default_factory=dict)  # launch 0, by Case.id
    before: DeviceState | None = None
    after: DeviceState | None = None
    results: list[Result] = msgspec.field(default_factory=list)


class Pair(msgspec.Struct, kw_only=True):
    """Two builds measured in the same launches, until each case was decided.

    old, new: candidate names. tolerance, confidence, metric: used to decide cases, which then leave
    the plan; an empty metric is the device's default.
    """

    old: str
    new: str
    tolerance: float
    confidence: float
    metric: str = ""


class Costs(msgspec.Struct, kw_only=True):
    """What a run cost besides the seconds of its launches, and the currency of its hourly rate.

    saved_seconds: of the fixed plan's launches that decided cases did not need. price: the source
    of the rate, for a reader to check.
    """

    build_seconds: float = 0.0
    lost_seconds: float = 0.0  # of launches left out of the file because they lack proof
    saved_seconds: float = 0.0
    currency: str = ""  # such as "usd"; "": unknown
    price: str = ""


class RunFile(msgspec.Struct, kw_only=True):
    """The whole document."""

    format: str = FORMAT
    version: int = VERSION
    flashbench: str = ""
    created: str = ""
    command: list[str] = msgspec.field(default_factory=list)
    environment: Environment = msgspec.field(default_factory=Environment)
    settings: Settings
    candidates: list[Candidate]
    cases: list[Case]
    launches: list[Launch] = msgspec.field(default_factory=list)
    hourly_rate: float | None = None
    pair: Pair | None = None
    costs: Costs = msgspec.field(default_factory=Costs)

    @property
    def device_seconds(self) -> float:
        return sum(launch.device_seconds for launch in self.launches)


def baseline_beside(baseline: str, candidate: str) -> str:
    """The name of a baseline in a candidate's process; "": in the process shared by all. No valid
    candidate name has a `/`."""
    return f"{baseline}/{candidate}" if candidate else baseline


_Document = TypeVar("_Document", bound=RunFile)


class _Head(msgspec.Struct):
    format: str = ""
    version: int = 0


_RUN = msgspec.json.Decoder(RunFile)
_HEAD = msgspec.json.Decoder(_Head)


def save(run: RunFile, path: Path) -> None:
    """Write a run file: a kill at any moment leaves the old or the new one. Raises OSError."""
    write_file(path, msgspec.json.encode(run) + b"\n")


def load(path: Path) -> RunFile:
    """Read and validate a run file; InvalidInputError says what is wrong with it and where."""
    return decode(content(path), str(path))


def content(path: Path) -> bytes:
    """The bytes of a file; InvalidInputError if it cannot be read or is too large."""
    return read_input(path, MAX_BYTES, "a run file")


def decode(document: bytes, name: str) -> RunFile:
    """Decode the bytes of a run file; messages call it `name`."""
    run = decode_as(document, _RUN, name)
    for launch in run.launches:
        for result in launch.results:
            check_lists(launch, result, name)
            check_times(launch, result, name)
    check_references(run, name)
    return run


def decode_as(document: bytes, decoder: msgspec.json.Decoder[_Document], name: str) -> _Document:
    """Decode with `decoder`; checks field types and that the version is supported."""
    try:
        run = decoder.decode(document)
    except UNREADABLE as error:
        _check_head(document, name)  # report another format or version as such
        raise InvalidInputError(f"{name}: damaged run file: {damage(error)}") from None
    _check_version(run.format, run.version, name)
    return run


def _check_head(document: bytes, name: str) -> None:
    try:
        head = _HEAD.decode(document)
    except UNREADABLE as error:
        raise InvalidInputError(
            f"{name}: not a JSON run file, or cut short ({damage(error)}); measure again"
        ) from None
    _check_version(head.format, head.version, name)


def _check_version(format_: str, version: int, name: str) -> None:
    if format_ != FORMAT:
        raise InvalidInputError(
            f"{name}: not a flashbench run file (format {format_[:40]!r}, expected {FORMAT!r})"
        )
    if version > VERSION:
        raise InvalidInputError(
            f"{name}: written by a newer flashbench (schema {version}, this one reads up to "
            f"{VERSION}); upgrade flashbench"
        )
    if version < 1:
        raise InvalidInputError(f"{name}: damaged run file: schema version {version}")


def check_references(run: RunFile, name: str) -> None:
    """Check what types alone cannot, except timings: names that resolve, possible numbers."""
    cases = {case.id for case in run.cases}
    candidates = {candidate.name for candidate in run.candidates}
    if len(cases) != len(run.cases) or len(candidates) != len(run.candidates):
        raise _damaged(name, "a case or a candidate is listed twice")
    for candidate in run.candidates:
        if is_baseline_name(candidate.name.partition("/")[0]) and not (
            candidate.baseline
            and candidate.name == baseline_beside(candidate.spec, candidate.beside)
        ):
            problem = f"{candidate.name!r} is a baseline's name, but {candidate.spec!r} is none"
            raise _damaged(name, problem)
    own = {candidate.name for candidate in run.candidates if not candidate.baseline}
    if not {candidate.beside for candidate in run.candidates} <= {"", *own}:
        raise _damaged(name, "a baseline is beside a candidate that is not listed")
    if any(max(msgspec.structs.astuple(case.shape)) >= MAX_COUNT for case in run.cases):
        raise _damaged(name, "a dimension is not a possible number")
    if len({launch.index for launch in run.launches}) != len(run.launches):
        raise _damaged(name, "two launches have the same index")
    for launch in run.launches:
        _check_seconds(launch, name)
    costs = run.costs
    for seconds in (costs.build_seconds, costs.lost_seconds, costs.saved_seconds):
        if not 0 <= seconds < MAX_SECONDS:
            raise _damaged(name, "its costs are not possible times")
    _check_settings(run.settings, name)
    if run.hourly_rate is not None and not 0 <= run.hourly_rate < MAX_SECONDS:
        raise _damaged(name, "hourly_rate is not a possible price")
    if run.pair is not None and not (
        {run.pair.old, run.pair.new} <= candidates
        and run.pair.old != run.pair.new
        and 0 < run.pair.tolerance < 1
        and 0 < run.pair.confidence < 1
    ):
        raise _damaged(name, "its pair names no two of its candidates, or impossible numbers")
    for launch in run.launches:
        seen: set[tuple[str, str]] = set()
        for result in launch.results:
            if result.case not in cases or result.candidate not in candidates:
                raise bad_result(
                    launch, result, name, "a result for something the file does not list"
                )
            if (result.case, result.candidate) in seen:
                raise bad_result(launch, result, name, "two results")
            seen.add((result.case, result.candidate))
            if not 0 <= (result.peak_memory_bytes or 0) < MAX_COUNT:
                raise bad_result(launch, result, name, "peak_memory_bytes is not a possible number")
            if not 0 <= result.sampling_seconds <= result.device_seconds < MAX_SECONDS:
                raise bad_result(launch, result, name, "device_seconds is not a possible time")


def _check_seconds(launch: Launch, name: str) -> None:
    possible = {
        "device_seconds": [launch.device_seconds],
        "start_seconds": [launch.start_seconds],
        "lost_seconds": [launch.lost_seconds],
        "case_seconds": launch.case_seconds.values(),
        "inspect_seconds": launch.inspect_seconds.values(),
    }
    for what, seconds in possible.items():
        if not all(0 <= value < MAX_SECONDS for value in seconds):
            raise _damaged(name, f"a launch's {what} is not a possible time")


def _check_settings(settings: Settings, name: str) -> None:
    """Check numbers that a resumed run would count to, or wait for."""
    budget = settings.budget_seconds
    possible = {
        "launches": 0 <= settings.launches <= MAX_LAUNCHES,
        "samples": 0 <= settings.samples < MAX_COUNT,
        "seed": 0 <= settings.seed <= MAX_COUNT,
        "min_sample_seconds": 0 <= settings.min_sample_seconds < MAX_SECONDS,
        "timeout_seconds": 0 <= settings.timeout_seconds < MAX_SECONDS,
        "budget_seconds": budget is None or 0 <= budget < MAX_SECONDS,
    }
    for what, holds in possible.items():
        if not holds:
            raise _damaged(name, f"the setting {what} is not a possible number")


def check_lists(launch: Launch, result: Result, name: str) -> None:
    """Check that each metric appears once, with one block number per sample."""
    several = len(result.timings) > 1
    if several and len({timing.metric for timing in result.timings}) != len(result.timings):
        raise bad_result(launch, result, name, "a metric is listed twice")
    for timing in result.timings:
        if timing.block and len(timing.block) != len(timing.seconds):
            problem = f"{timing.metric} lacks one block number per sample"
            raise bad_result(launch, result, name, problem)


def check_times(launch: Launch, result: Result, name: str) -> None:
    """Check that every sample is a possible time."""
    for timing in result.timings:
        seconds = timing.seconds
        if seconds and not possible_times(min(seconds), max(seconds)):
            problem = f"a {timing.metric} sample is not a possible time"
            raise bad_result(launch, result, name, problem)


def possible_times(least: float, most: float) -> bool:
    """Check all samples at once: much faster than one by one, and JSON has no NaN to slip
    through."""
    return MIN_SECONDS <= least <= most <= MAX_SECONDS


def bad_result(launch: Launch, result: Result, name: str, problem: str) -> InvalidInputError:
    """The error for one result of the file `name`."""
    where = f"launch {launch.index}, {result.candidate!r} on {result.case!r}"
    return _damaged(name, f"{where}: {problem}")


def _damaged(name: str, what: str) -> InvalidInputError:
    return InvalidInputError(f"{name}: damaged run file: {what}")
