"""pyperf's JSON. Every run is its own process, so a launch: verdicts are complete.

Format: https://pyperf.readthedocs.io/en/latest/api.html, version 1.0. A run without `values` only
calibrated the number of loops; it is left out, as are `warmups`.
"""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from flashbench.errors import InvalidInputError
from flashbench.launches import Failure
from flashbench.other_tools.benchmarks import (
    ONE_PROCESS,
    SECONDS,
    BenchmarkSet,
    BenchmarkTimes,
    Launches,
    find_case,
    impossible,
)
from flashbench.other_tools.untrusted_json import typed

VERSION = "1.0"
_UNITS = {"second": SECONDS, "byte": "bytes"}  # "integer" names no unit


class _Metadata(msgspec.Struct, kw_only=True):
    name: str | None = None
    unit: str | None = None
    hostname: str | None = None
    cpu_model_name: str | None = None


class _Run(msgspec.Struct, kw_only=True):
    values: list[float] = msgspec.field(default_factory=list)
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _Benchmark(msgspec.Struct, kw_only=True):
    runs: list[_Run]
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


class _Suite(msgspec.Struct, kw_only=True):
    benchmarks: list[_Benchmark]
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


def read(path: Path, content: dict[str, Any]) -> BenchmarkSet:
    """The benchmarks of a parsed file; InvalidInputError if it is damaged."""
    where = f"{path}: damaged pyperf file"
    if content.get("version") != VERSION:
        found = str(content.get("version"))[:20]
        raise InvalidInputError(
            f"{path}: pyperf file of version {found!r}, this reads {VERSION!r}; "
            "convert it with `pyperf convert`"
        )
    suite = typed(content, _Suite, where)
    series: dict[str, BenchmarkTimes] = {}
    launches = 0
    for benchmark in suite.benchmarks:
        one = _series(benchmark, suite.metadata, where)
        if one.name in series:
            raise InvalidInputError(f"{where}: {one.name!r} is listed twice")
        series[one.name] = one
        launches = max(launches, len(benchmark.runs))
    # pyperf keeps metadata that all benchmarks share once, the rest in each benchmark or run.
    places = [suite.metadata]
    for benchmark in suite.benchmarks:
        places += [benchmark.metadata, *(run.metadata for run in benchmark.runs)]
    return BenchmarkSet(
        str(path),
        "pyperf",
        tuple(series.values()),
        launches,
        machine=_agreed([place.hostname for place in places]),
        cpu=_agreed([place.cpu_model_name for place in places]),
    )


def _series(benchmark: _Benchmark, shared: _Metadata, where: str) -> BenchmarkTimes:
    name = benchmark.metadata.name or shared.name
    stated = benchmark.metadata.unit or shared.unit
    for run in benchmark.runs:
        name, stated = name or run.metadata.name, stated or run.metadata.unit
    if name is None:
        raise InvalidInputError(f"{where}: a benchmark without a name")
    unit = _UNITS.get(stated or "second", stated or "")
    timed = [(index, run.values) for index, run in enumerate(benchmark.runs) if run.values]
    if any(impossible(unit, value) for _, values in timed for value in values):
        raise InvalidInputError(f"{where}: {name!r}: a value is not a possible number of {unit}")
    case = find_case(name)
    candidate = name.replace(case, "").strip(" -_:,[]()") if case else ""
    if not timed:
        failure = Failure("missing", "no values: its runs only calibrated")
        return BenchmarkTimes(name, unit, case=case, candidate=candidate, failure=failure)
    samples = tuple(np.array(values) for _, values in timed)
    return BenchmarkTimes(
        name,
        unit,
        Launches(
            np.array([index for index, _ in timed], dtype=np.intp),
            np.array([float(np.median(values)) for values in samples]),
        ),
        samples,
        case=case,
        candidate=candidate,
        lacks=(ONE_PROCESS,) if len(timed) == 1 else (),
    )


def _agreed(values: list[str | None]) -> str:
    found = {value for value in values if value}
    return found.pop() if len(found) == 1 else ""
