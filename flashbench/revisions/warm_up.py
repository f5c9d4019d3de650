"""Run each revision once before any launch, so that it compiles what it compiles at a first
call."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from flashbench import defaults
from flashbench.revisions import import_root as roots
from flashbench.revisions import jit
from flashbench.revisions.check import Checker
from flashbench.revisions.computed import WhatIsComputed
from flashbench.streams import Tell


@dataclass(frozen=True)
class LaunchCalls:
    """What launches will call. cases: their ids; threads: of torch, None for its default;
    operation, operation_root: as in a `Setup`."""

    cases: Sequence[str]
    threads: int | None
    operation: str
    operation_root: str

    @property
    def names(self) -> set[str]:
        """Keys of the record: code compiled for CPUs depends on the threads."""
        return {f"{case} {self.threads or ''}" for case in self.cases}


def compiling(specs: Mapping[Path, str]) -> dict[Path, str]:
    """The import roots, each with its callable, that imported a compiler and left it unused."""
    found = {}
    for place, spec in specs.items():
        record = roots.read(place.parent)
        used = {jit.OF_EXTENSIONS} if jit.is_compiled_in_place(place) else set()
        if record and set(record.compilers) - used:
            found[place] = spec
    return found


def warm_up(specs: Mapping[Path, str], calls: LaunchCalls, tell: Tell) -> float:
    """Call each revision once on each case, in a process of its own; returns the seconds that this
    took. Errors of calls are left to the launches, and so is what takes more than half an hour."""
    began = time.monotonic()
    with Checker(timeout=defaults.BUILD_TIMEOUT_SECONDS) as checker:
        for place, spec in specs.items():
            record = roots.read(place.parent)
            if record is None or calls.names <= set(record.warm):
                continue
            number = len(calls.cases)
            what = f"for {number} case{'s' * (number != 1)} before the first launch"
            tell(f"{spec} compiles when it is called ({', '.join(record.compilers)}): {what}")
            computed = WhatIsComputed(calls.operation, calls.operation_root)
            log = place.parent / "log.txt"
            checker.warms_up(place, spec, log, calls.cases, calls.threads, computed)
            roots.note_warm(place.parent, sorted(calls.names))
    return time.monotonic() - began
