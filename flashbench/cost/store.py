"""Records of what measuring took on this machine: one file in the cache, updated by every run.

It improves estimates and affects no verdict; it may be deleted at any time.
"""

import contextlib
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from flashbench import locks
from flashbench.baseline_names import is_baseline_name
from flashbench.builds import cache_directory
from flashbench.damaged_files import UNREADABLE
from flashbench.files import replace_file
from flashbench.machine import identify
from flashbench.runfile import Environment

FORMAT, VERSION = "flashbench-costs", 2
_MOST_CASES, _MOST_RATIOS = 5000, 40


class CandidateCost(msgspec.Struct, kw_only=True, frozen=True):
    """See `estimate.Speed`."""

    call: float
    fixed: float
    turn: float
    stretch: float


class CaseCost(msgspec.Struct, kw_only=True):
    """See `estimate.Around`; adds the cost of each candidate, by its spec. spread: the standard
    deviation of a log-ratio between launches, from `launches` of them; 0: unknown."""

    every: float
    first: float
    spread: float = 0.0
    spread_launches: int = 0
    candidates: dict[str, CandidateCost] = msgspec.field(default_factory=dict)


class StartCost(msgspec.Struct, frozen=True):
    """See `estimate.Start`. later: None if there was none; shortest: the shortest start that was
    not forked."""

    first: float
    later: float | None
    shortest: float


class MachineCosts(msgspec.Struct, kw_only=True):
    """The costs on one device. ratios: of actual to estimated seconds of runs, by the basis of the
    estimate."""

    device: str
    name: str
    threads: int
    updated: str = ""  # ISO 8601, UTC
    launches: int = 0
    # By number of processes per launch, and by `start_key`.
    starts: dict[str, StartCost] = msgspec.field(default_factory=dict)
    cases: dict[str, CaseCost] = msgspec.field(default_factory=dict)
    ratios: dict[str, list[float]] = msgspec.field(default_factory=dict)


class CostRecords(msgspec.Struct, kw_only=True):
    """The document. By repository: seconds of builds, and of the rest of each revision."""

    format: str = FORMAT
    version: int = VERSION
    machines: list[MachineCosts] = msgspec.field(default_factory=list)
    builds: dict[str, list[float]] = msgspec.field(default_factory=dict)
    checks: dict[str, list[float]] = msgspec.field(default_factory=dict)

    def of(self, environment: Environment, device: str) -> MachineCosts:
        """The costs of a run's machine; new if unknown."""
        name, threads = identify(environment, device)
        for one in self.machines:
            if (one.device, one.name, one.threads) == (device, name, threads):
                return one
        self.machines.append(MachineCosts(device=device, name=name, threads=threads))
        return self.machines[-1]

    def find(self, device: str, name: str, threads: int | None) -> MachineCosts | None:
        """The costs of a device by name, "" for any. threads None: as last time."""
        found = [
            one
            for one in self.machines
            if one.device == device and name in ("", one.name) and threads in (None, 0, one.threads)
        ]
        return max(found, key=lambda one: one.updated, default=None)

    def like(self, device: str, part: str) -> MachineCosts | None:
        """The costs of the device used last whose name has all words of `part`."""
        found = [
            one for one in self.machines if one.device == device and words(part) <= words(one.name)
        ]
        return max(found, key=lambda one: one.updated, default=None)


_COSTS = msgspec.json.Decoder(CostRecords)


def start_key(processes: int, candidates: Iterable[str]) -> str:
    """The key of a start by what is imported: a package may take seconds."""
    own = sorted({one for one in candidates if not is_baseline_name(one)})
    return " ".join([str(processes), *own])


def words(name: str) -> set[str]:
    """The words of a device's name: those of H100-80GB are in NVIDIA H100 80GB HBM3."""
    return set(re.findall(r"[a-z0-9.]+", name.lower()))


def path() -> Path:
    """The file, beside the builds in the cache."""
    return cache_directory().with_name("costs.json")


def read() -> CostRecords:
    """The records; empty if the file is missing or damaged."""
    with contextlib.suppress(OSError, *UNREADABLE):
        costs = _COSTS.decode(path().read_bytes())
        if (costs.format, costs.version) == (FORMAT, VERSION):
            return costs
    return CostRecords()


def update(change: Callable[[CostRecords], None]) -> None:
    """Apply `change` to the records and save them; ignores failures, because no command depends on
    them."""
    file = path()
    with contextlib.suppress(OSError, locks.BusyError):
        file.parent.mkdir(parents=True, exist_ok=True)
        with locks.exclusive(file.with_name(f".{file.name}.lock")):
            costs = read()
            change(costs)
            for one in costs.machines:
                _forget(one)
            for table in (costs.builds, costs.checks):
                table.update({name: kept[-_MOST_RATIOS:] for name, kept in table.items()})
            replace_file(file, msgspec.json.encode(costs), durable=False)


def touch(machine: MachineCosts, launches: int) -> None:
    """Record that this many launches were added now."""
    machine.launches += launches
    machine.updated = datetime.now(UTC).isoformat(timespec="seconds")


def _forget(machine: MachineCosts) -> None:
    """Drop the oldest entries of lists that are too long."""
    for case in list(machine.cases)[: max(0, len(machine.cases) - _MOST_CASES)]:
        del machine.cases[case]
    machine.ratios = {level: values[-_MOST_RATIOS:] for level, values in machine.ratios.items()}
