"""The run file: one JSON document that holds everything one `flashbench run` measured.

docs/run-file.md describes the schema and the reading rules. Files are untrusted: they are decoded
into the types below and nothing else; reading one executes and imports nothing. Resuming one
(`flashbench run --resume`) does import the candidates that it names.
"""

from collections.abc import MutableSequence, Sequence
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from flashbench import operations
from flashbench.case import Case
from flashbench.damaged_files import UNREADABLE, damage
from flashbench.errors import InvalidInputError
from flashbench.files import write_file
from flashbench.format_version import head_of
from flashbench.inputs import read_input
from flashbench.operations.case_document import decode_case, encode_case
from flashbench.run_validation import check_lists, check_references, check_times

FORMAT = "flashbench-run"
VERSION = 2  # files of attention are still written as 1
MAX_BYTES = 2**31  # msgspec builds the whole document in memory

ResultStatus = Literal[
    "ok",
    "wrong",  # the output is wrong: no speed is reported
    "unsupported",  # the candidate does not support this case
    "error",  # it raised
    "crashed",  # the worker process died
    "timeout",  # the worker process hung and was killed
    "out_of_memory",
    "interrupted",  # Ctrl-C or SIGTERM came before its turn
    "over_budget",  # the budget was spent before its turn
]


# Unknown fields are ignored: a newer minor version may add some; a newer VERSION is refused.


class BuildIdentity(msgspec.Struct, kw_only=True):
    """The measured library. Empty strings for a baseline."""

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
    """A named callable with the signature of its operation.

    beside: for a baseline, the candidate in whose process it was measured; empty: the process
    shared by all.
    """

    name: str
    spec: str  # "flashbench", "sdpa", "sdpa:cudnn", "torch:eager", or "module:function"
    baseline: bool = False  # True for SDPA and torch's own
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
Workers = Literal["fresh", "forked"]


class RunSettings(msgspec.Struct, kw_only=True):
    """What was requested. A run is resumed with these; the command line may change some.

    processes: whether all candidates shared the process of a launch, or each had its own. workers:
    whether each process started on its own, or forked from one that has imported torch. earlier:
    the numbers of launches after which the file may have been compared before more were measured.
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
    workers: Workers = "fresh"
    earlier: list[int] = msgspec.field(default_factory=list)

    def plan_launches(self, launches: int, done: int = 0) -> None:
        """Ask for this many launches in a file that is resumed after so many of them."""
        seen = self.launches if launches > self.launches else done
        # One launch alone is never a verdict: a stop after it is no look.
        looked_at = launches > self.launches or 1 < done < launches
        if looked_at and seen not in self.earlier:
            self.earlier = [*self.earlier, seen]
        self.launches = launches


class Correctness(msgspec.Struct, kw_only=True):
    """Against float64 by the rule of flashbench/operations/error_rule.py; absolute errors."""

    max_error: float | None  # None: NaN, Inf or another shape
    bound: float
    rows_checked: int = 0  # rows of the result that were compared (attention: per head); 0: all


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
    status: ResultStatus
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


class Ceilings(msgspec.Struct, kw_only=True, frozen=True):
    """Measured peak rates of one device, per second; None: unknown.

    flops: of a matrix product, by dtype. bytes_per_second: read and written by a copy from memory;
    cached_bytes_per_second: by a copy inside the cache of `cache_bytes`. exponentials: evaluated.
    launch_seconds: of an empty call, by metric.
    """

    device: str  # "cpu" or "cuda"
    name: str
    threads: int
    measured: str  # ISO 8601
    flops: dict[str, float]
    bytes_per_second: float
    cached_bytes_per_second: float | None = None
    cache_bytes: int = 0
    exponentials: float | None = None
    launch_seconds: dict[str, float] = msgspec.field(default_factory=dict)

    @property
    def key(self) -> tuple[str, str, int]:
        return self.device, self.name, self.threads


class Costs(msgspec.Struct, kw_only=True):
    """What a run cost besides the seconds of its launches, and the currency of its hourly rate.

    saved_seconds: of the fixed plan's launches that decided cases did not need. price: the source
    of the rate, for a reader to check. rented_seconds: that machines rented for it were paid for,
    from their start to their end, with all the others.
    """

    build_seconds: float = 0.0
    lost_seconds: float = 0.0  # of workers that no launch of the file has
    saved_seconds: float = 0.0
    currency: str = ""  # such as "usd"; "": unknown
    price: str = ""
    rented_seconds: float = 0.0


class RunFile(msgspec.Struct, kw_only=True):
    """The whole document."""

    format: str = FORMAT
    version: int = 1
    flashbench: str = ""
    created: str = ""
    command: list[str] = msgspec.field(default_factory=list)
    environment: Environment = msgspec.field(default_factory=Environment)
    settings: RunSettings
    candidates: list[Candidate]
    cases: list[Case]
    launches: list[Launch] = msgspec.field(default_factory=list)
    hourly_rate: float | None = None
    pair: Pair | None = None
    costs: Costs = msgspec.field(default_factory=Costs)
    ceilings: list[Ceilings] = msgspec.field(default_factory=list)  # known when it was measured

    @property
    def device_seconds(self) -> float:
        return self.costs.lost_seconds + sum(launch.device_seconds for launch in self.launches)

    @property
    def operation(self) -> str:
        """What all cases are of."""
        return self.cases[0].operation if self.cases else operations.DEFAULT


def version_for(cases: Sequence[Case]) -> int:
    """The oldest schema version that can hold these cases, which older flashbenches read."""
    known = (
        case.operation == operations.DEFAULT and "layout" not in case.options for case in cases
    )
    return 1 if all(known) else 2


_Document = TypeVar("_Document", bound=RunFile)
_RUN = msgspec.json.Decoder(RunFile, dec_hook=decode_case)


def save(run: RunFile, path: Path) -> None:
    """Write a run file: a kill at any moment leaves the old or the new one. Raises OSError."""
    write_file(path, encode(run) + b"\n")


def encode(run: RunFile) -> bytes:
    """The document as JSON."""
    return msgspec.json.encode(run, enc_hook=encode_case)


def read(path: Path) -> RunFile:
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
        head = head_of(document)
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
