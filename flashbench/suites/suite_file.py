"""The file of a suite's comparison: every sample of both revisions, launch by launch."""

from pathlib import Path
from typing import Literal

import msgspec

from flashbench.damaged_files import UNREADABLE, damage
from flashbench.errors import InvalidInputError
from flashbench.files import write_file
from flashbench.inputs import open_input, read_input

FORMAT = "flashbench-suite"
VERSION = 1
MAX_BYTES = 2**28
_HEAD = 4096

Tool = Literal["asv", "pytest-benchmark"]
BenchmarkStatus = Literal["ok", "skipped", "error", "crashed", "timeout", "missing"]


class SuiteSide(msgspec.Struct, kw_only=True):
    """A revision. content: hash of the files that it was measured from."""

    revision: str
    commit: str
    dirty: bool = False
    content: str = ""


class SuiteCase(msgspec.Struct, kw_only=True):
    """A benchmark with its parameters. index: asv's, of these. unit: "seconds" for times. timeout,
    cache_timeout: its own seconds, and its setup_cache's; 0: none."""

    name: str
    benchmark: str = ""
    index: int | None = None
    kind: str = "time"
    unit: str = "seconds"
    cache: str = ""  # asv's key of its setup_cache
    timeout: float = 0.0
    cache_timeout: float = 0.0


class SuiteResult(msgspec.Struct, kw_only=True):
    """One case in one launch. a, b: the samples of each pass; the passes of one index ran side by
    side. side: "A" or "B", where the failure was; "" if both skip it."""

    case: str
    status: BenchmarkStatus = "ok"
    reason: str = ""
    side: str = ""
    a: list[list[float]] = []
    b: list[list[float]] = []


class SuiteLaunch(msgspec.Struct, kw_only=True):
    """A pair of processes, one of each revision."""

    index: int
    seconds: float = 0.0
    complete: bool = False
    results: list[SuiteResult] = []


class SuiteRun(msgspec.Struct, kw_only=True):
    """The whole document. asked: the patterns or tests."""

    format: str = FORMAT
    version: int = VERSION
    flashbench: str = ""
    created: str = ""
    tool: Tool
    asked: list[str]
    a: SuiteSide
    b: SuiteSide
    tolerance: float
    confidence: float
    hostname: str = ""
    cpu: str = ""
    python: str = ""
    cases: list[SuiteCase] = []
    launches: list[SuiteLaunch] = []
    notes: list[str] = []  # what could not be imported, say

    @property
    def seconds(self) -> float:
        return sum(launch.seconds for launch in self.launches)


_DECODER = msgspec.json.Decoder(SuiteRun)


def save(run: SuiteRun, path: Path) -> None:
    """Write the file: a kill at any moment leaves the old or the new one. Raises OSError."""
    write_file(path, msgspec.json.encode(run) + b"\n")


def is_suite(path: Path) -> bool:
    """Whether this is such a file, by its first bytes."""
    try:
        with open_input(path) as file:
            return f'"{FORMAT}"'.encode() in file.read(_HEAD)
    except (OSError, ValueError, InvalidInputError):
        return False


def read(path: Path) -> SuiteRun:
    """Read and validate a file; InvalidInputError says what is wrong with it."""
    try:
        run = _DECODER.decode(read_input(path, MAX_BYTES, "a suite's comparison"))
    except UNREADABLE as error:
        raise InvalidInputError(f"{path}: damaged comparison of a suite: {damage(error)}") from None
    if run.format != FORMAT or run.version > VERSION:
        raise InvalidInputError(
            f"{path}: {run.format} of version {run.version}; this flashbench reads {FORMAT} "
            f"{VERSION}: update it"
        )
    names = {case.name for case in run.cases}
    if len(names) < len(run.cases) or not 0 < run.confidence < 1 or not 0 <= run.tolerance <= 1:
        raise InvalidInputError(f"{path}: damaged comparison of a suite")
    return run
