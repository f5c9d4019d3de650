"""CaseProfile: the profile of one case, a JSON document beside the run files."""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from flashbench.case import Case
from flashbench.cost.money import DevicePrice
from flashbench.cost.spent import Spent
from flashbench.damaged_files import UNREADABLE, damage
from flashbench.errors import InvalidInputError
from flashbench.files import write_file
from flashbench.format_version import head_of
from flashbench.inputs import read_input
from flashbench.operations.case_document import decode_case, encode_case
from flashbench.runfile import Candidate, Ceilings, Environment

FORMAT = "flashbench-profile"
VERSION = 1
_MAX_BYTES = 2**27
_LARGEST = 1e30  # of a number, so that products stay finite


class CountedKernel(msgspec.Struct, kw_only=True):
    """One kernel of the call. counters: by the names of flashbench/profile/counters.py, in seconds,
    bytes, percent."""

    name: str
    seconds: float | None = None  # by torch's profiler: no counters are read then
    counters: dict[str, float] = msgspec.field(default_factory=dict)

    @property
    def took(self) -> float:
        """Seconds by ncu, else by torch's profiler."""
        return self.counters.get("duration", self.seconds or 0.0)


class Time(msgspec.Struct, kw_only=True):
    """Seconds per call in the timed launch: median and quartiles of its samples."""

    median: float
    low: float
    high: float


class Subject(msgspec.Struct, kw_only=True):
    """One candidate on the case. status, reason: as in a run file. times: by metric.

    counters: those of the process on a CPU. variants: times of a call without a stage, by its name.
    without: why there are no counters. report: the raw report, a file beside the profile.
    """

    candidate: Candidate
    status: str
    reason: str = ""
    times: dict[str, Time] = msgspec.field(default_factory=dict)
    kernels: list[CountedKernel] = msgspec.field(default_factory=list)
    counters: dict[str, float] = msgspec.field(default_factory=dict)
    variants: dict[str, Time] = msgspec.field(default_factory=dict)
    without: str = ""
    report: str = ""

    @property
    def longest(self) -> CountedKernel | None:
        """The kernel that takes most of the call's time."""
        return max(self.kernels, key=lambda kernel: kernel.took, default=None)

    def seconds(self, metric: str) -> float | None:
        """Seconds per call by the clock; a wrong result has no time, so its kernels' seconds
        count."""
        if metric in self.times:
            return self.times[metric].median
        return sum(kernel.took for kernel in self.kernels) or None


class CaseProfile(msgspec.Struct, kw_only=True):
    """The document. subjects: the candidate, then its opponent. cold: with an empty L2 cache.
    device_seconds: that all of it took; lost_seconds: of steps without a result; rented_seconds,
    hourly_rate, currency, price: as in a run file."""

    format: str = FORMAT
    version: int = VERSION
    flashbench: str = ""
    created: str = ""
    command: list[str] = msgspec.field(default_factory=list)
    environment: Environment = msgspec.field(default_factory=Environment)
    tool: str = ""  # "ncu 2025.3.1.0"
    case: Case
    cold: bool
    ceilings: Ceilings | None = None
    subjects: list[Subject]
    device_seconds: float = 0.0
    lost_seconds: float = 0.0
    rented_seconds: float = 0.0
    hourly_rate: float | None = None
    currency: str = ""
    price: str = ""

    @property
    def spent(self) -> Spent:
        """What all of it cost."""
        rate = None
        if self.hourly_rate is not None:
            rate = DevicePrice(self.hourly_rate, self.currency, self.price)
        return Spent(self.device_seconds, self.lost_seconds, rented=self.rented_seconds, rate=rate)

    @property
    def metric(self) -> str:
        """The metric of the times beside the counters."""
        if self.case.device == "cpu":
            return "wall"
        return "gpu_cold" if self.cold else "gpu_warm"


_PROFILE = msgspec.json.Decoder(CaseProfile, dec_hook=decode_case)


def save(profile: CaseProfile, path: Path) -> None:
    """Write the document atomically. Raises OSError."""
    write_file(path, msgspec.json.encode(profile, enc_hook=encode_case) + b"\n")


def is_profile(path: Path) -> bool:
    """Whether the file declares to be a profile."""
    try:
        return head_of(read_input(path, _MAX_BYTES, "a profile")).format == FORMAT
    except (InvalidInputError, *UNREADABLE):
        return False


def read(path: Path) -> CaseProfile:
    """Read and check a profile; InvalidInputError names the damage."""
    content = read_input(path, _MAX_BYTES, "a profile")
    try:
        head = head_of(content)
        if head.format != FORMAT:
            raise InvalidInputError(f"{path}: not a profile of `flashbench profile`")
        if head.version != VERSION:
            raise InvalidInputError(
                f"{path}: written by another flashbench (schema {head.version}, this one reads "
                f"{VERSION}); upgrade flashbench, or profile again"
            )
        profile = _PROFILE.decode(content)
    except UNREADABLE as error:
        raise InvalidInputError(
            f"{path}: damaged profile: {damage(error)}; profile again"
        ) from None
    if not profile.subjects:
        raise InvalidInputError(f"{path}: damaged profile: it has no candidate; profile again")
    if not all(0 <= number < _LARGEST for number in _numbers(profile)) or not all(
        0 < number < _LARGEST for number in _times(profile)
    ):
        raise InvalidInputError(f"{path}: damaged profile: an impossible number; profile again")
    return profile


def _numbers(profile: CaseProfile) -> Iterator[float]:
    yield from (profile.device_seconds, profile.lost_seconds, profile.rented_seconds)
    yield profile.hourly_rate or 0.0
    if (known := profile.ceilings) is not None:
        yield from (*known.flops.values(), *known.launch_seconds.values(), known.bytes_per_second)
        yield from (known.cached_bytes_per_second or 0.0, known.exponentials or 0.0)
    for subject in profile.subjects:
        yield from subject.counters.values()
        for kernel in subject.kernels:
            yield from (*kernel.counters.values(), kernel.seconds or 0.0)


def _times(profile: CaseProfile) -> Iterator[float]:
    for subject in profile.subjects:
        for time in [*subject.times.values(), *subject.variants.values()]:
            yield from (time.median, time.low, time.high)
