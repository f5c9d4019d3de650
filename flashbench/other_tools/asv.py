"""asv's result file: one commit on one machine, `results/MACHINE/COMMIT-ENV.json`, schema 2.

asv may sample a benchmark in several processes but keeps the samples in one list, so a file counts
as one launch. The unit comes from `benchmarks.json` in the results folder, else from asv's prefix
of the name (time_, mem_, peakmem_), else it is unknown.
"""

import itertools
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from flashbench.damaged_files import UNREADABLE
from flashbench.errors import InvalidInputError
from flashbench.launches import Failure
from flashbench.other_tools.asv_file import ASV_VERSION, AsvRow, damaged, of_json
from flashbench.other_tools.asv_folder import read_benchmarks
from flashbench.other_tools.benchmarks import (
    NO_SAMPLES,
    NOT_STATED,
    SECONDS,
    BenchmarkSet,
    BenchmarkTimes,
    Launches,
    find_case,
    impossible,
    with_control,
)

NO_LAUNCHES = "asv does not record which process took a sample: a file is one launch"
_PREFIXES = {"time": SECONDS, "timeraw": SECONDS, "mem": "bytes", "peakmem": "bytes"}


def read(path: Path, content: dict[str, Any]) -> BenchmarkSet:
    """The benchmarks of a parsed file, one per combination of parameters.

    Raises InvalidInputError if the file is damaged.
    """
    if content.get("version") != ASV_VERSION:
        found = str(content.get("version"))[:20]
        raise InvalidInputError(
            f"{path}: asv result file of schema {found}, this reads {ASV_VERSION}; run `asv update`"
        )
    file = of_json(content, path)
    units = _units(path)
    times: dict[str, BenchmarkTimes] = {}
    try:
        for row in file.rows:
            for one in _expanded(row, _unit(row.benchmark, units)):
                if one.name in times:
                    raise ValueError(f"{one.name!r} is listed twice")
                times[one.name] = one
    except UNREADABLE as error:
        raise damaged(path, error) from None
    machine = content.get("params")
    machine = machine if isinstance(machine, dict) else {}
    return with_control(
        BenchmarkSet(
            str(path),
            "asv",
            tuple(times.values()),
            launches=1,
            machine=_text(machine.get("machine")),
            cpu=_text(machine.get("cpu")),
            commit=file.commit,
        )
    )


def _expanded(row: AsvRow, unit: str) -> list[BenchmarkTimes]:
    """One benchmark per combination of parameters, in asv's order: the last varies fastest."""
    (results,) = row.columns(["result"])
    if results is None:
        # Never more rows than the file has numbers: damaged parameters may multiply to anything.
        failure = Failure("failed", "asv has no result for any of its parameters")
        return [BenchmarkTimes(row.benchmark, unit, failure=failure)]
    samples = row.samples() or [None] * len(results)
    combinations = itertools.product(*row.params)
    return [
        _times(row.benchmark, combination, result, taken, unit)
        for combination, result, taken in zip(combinations, results, samples, strict=True)
    ]


def _times(
    benchmark: str,
    combination: tuple[str, ...],
    result: float | None,
    samples: list[float] | None,
    unit: str,
) -> BenchmarkTimes:
    name = f"{benchmark}({', '.join(combination)})" if combination else benchmark
    case = next(filter(None, map(find_case, combination)), "")
    others = [text.strip("'\"") for text in combination if not case or case not in text]
    candidate = (", ".join(others) or benchmark) if case else ""
    blank = BenchmarkTimes(name, unit, case=case, candidate=candidate)
    values = [] if result is None else [result, *(samples or [])]
    if result is None or math.isnan(result):
        why = "asv has no result (failed)" if result is None else "asv skipped it (NaN)"
        return replace(blank, failure=Failure("missing", why))
    if any(impossible(unit, value) for value in values):
        if unit == SECONDS:
            raise ValueError(f"{benchmark!r}: a sample is not a possible time")
        why = f"{result:.6g} {unit}".rstrip() + ": a ratio needs numbers above 0"
        return replace(blank, failure=Failure("missing", why))
    return replace(
        blank,
        times=Launches(np.zeros(1, dtype=np.intp), np.array([result])),
        samples=(np.array(samples),) if samples else (),
        lacks=(NO_LAUNCHES,) if samples else (NO_SAMPLES, NO_LAUNCHES),
    )


def _unit(name: str, units: dict[str, str]) -> str:
    prefix = name.rpartition(".")[2].partition("_")[0].lower()
    return units.get(name) or _PREFIXES.get(prefix, NOT_STATED)


def _units(path: Path) -> dict[str, str]:
    """Units by benchmark from the folder's `benchmarks.json`; empty without that file.

    Raises InvalidInputError if it is damaged.
    """
    beside = path.absolute().parent.parent / "benchmarks.json"
    if not beside.is_file():
        return {}
    found, damaged = read_benchmarks(beside)
    if damaged:
        raise InvalidInputError(damaged[0])
    return {name: one.unit for name, one in found.items()}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
