"""pytest-benchmark's JSON (--benchmark-json, --benchmark-save): one file is one process.

Times are seconds per call. --benchmark-json and --benchmark-save-data include `data`, the raw
samples. Our pytest plugin adds its fields to `extra_info`.
"""

from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from flashbench.errors import InvalidInputError
from flashbench.other_tools.benchmarks import (
    NO_SAMPLES,
    NOT_STATED,
    ONE_PROCESS,
    SECONDS,
    BenchmarkSet,
    BenchmarkTimes,
    Launches,
    find_case,
    impossible,
    with_control,
)
from flashbench.other_tools.untrusted_json import typed

EXTRA = "flashbench"  # our pytest plugin's key in `extra_info`


class PluginInfo(msgspec.Struct, kw_only=True):
    """What our pytest plugin records about a test (docs/pytest.md)."""

    case: str
    candidate: str
    metric: str
    device: str
    gpu: str = ""
    torch: str = ""


class _Stats(msgspec.Struct, kw_only=True):
    median: float
    data: list[float] = msgspec.field(default_factory=list)


class _Benchmark(msgspec.Struct, kw_only=True):
    fullname: str
    stats: _Stats
    extra_info: dict[str, Any] = msgspec.field(default_factory=dict)


class _Cpu(msgspec.Struct, kw_only=True):
    brand_raw: str | None = None
    brand: str | None = None  # until pytest-benchmark 3.2


class _Machine(msgspec.Struct, kw_only=True):
    node: str | None = None
    cpu: _Cpu | None = None


class _Commit(msgspec.Struct, kw_only=True):
    id: str | None = None
    dirty: bool | None = None


class _File(msgspec.Struct, kw_only=True):
    benchmarks: list[_Benchmark]
    machine_info: _Machine
    commit_info: _Commit | None = None


def read(path: Path, content: dict[str, Any]) -> BenchmarkSet:
    """The benchmarks of a parsed file; InvalidInputError if it is damaged."""
    where = f"{path}: damaged pytest-benchmark file"
    file = typed(content, _File, where)
    series: dict[str, BenchmarkTimes] = {}
    infos: list[PluginInfo] = []
    for benchmark in file.benchmarks:
        if benchmark.fullname in series:
            raise InvalidInputError(f"{where}: {benchmark.fullname!r} is listed twice")
        info = None
        if EXTRA in benchmark.extra_info:
            place = f"{where}: extra_info of {benchmark.fullname!r}"
            info = typed(benchmark.extra_info[EXTRA], PluginInfo, place)
            infos.append(info)
        series[benchmark.fullname] = _series(benchmark, info, where)
    machine, cpu = file.machine_info, file.machine_info.cpu or _Cpu()
    commit = file.commit_info or _Commit()
    return with_control(
        BenchmarkSet(
            str(path),
            "pytest-benchmark",
            tuple(series.values()),
            launches=1,
            machine=machine.node or "",
            cpu=cpu.brand_raw or cpu.brand or "",
            gpu=next((info.gpu for info in infos if info.gpu), ""),  # a process uses one GPU
            torch=next((info.torch for info in infos), ""),
            commit="" if commit.id in (None, "unversioned") else str(commit.id),
            dirty=bool(commit.dirty),
        )
    )


def _series(benchmark: _Benchmark, info: PluginInfo | None, where: str) -> BenchmarkTimes:
    name, stats = benchmark.fullname, benchmark.stats
    if any(impossible(SECONDS, value) for value in (stats.median, *stats.data)):
        raise InvalidInputError(f"{where}: {name!r}: a sample is not a possible time")
    case = info.case if info else find_case(name)
    test, _, rest = name.partition("[")
    candidate = rest.replace(case, "").strip("]-") if case else ""
    # The launch's number: the median of its samples, or the stated median without them.
    time = float(np.median(stats.data)) if stats.data else stats.median
    return BenchmarkTimes(
        name,
        SECONDS,
        Launches(np.zeros(1, dtype=np.intp), np.array([time])),
        (np.array(stats.data),) if stats.data else (),
        case=case,
        candidate=info.candidate if info else candidate or (test if case else ""),
        metric=info.metric if info else NOT_STATED,
        lacks=(ONE_PROCESS,) if stats.data else (NO_SAMPLES, ONE_PROCESS),
    )
