"""Read asv's results folder, results/MACHINE/COMMIT-ENVIRONMENT.json, into a history.

Nothing that a file names is imported, executed or opened. An unreadable file becomes a note, so one
damaged file does not hide two thousand good ones.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from flashbench.cost.money import DevicePrice, price_of
from flashbench.cost.spent import Spent
from flashbench.history import names
from flashbench.history.controls import with_controls
from flashbench.history.folder import (
    benchmarks_of,
    machine_folders,
    machine_of,
    read_files,
    result_files,
)
from flashbench.history.gaps import find_gaps
from flashbench.history.model import History, Machine
from flashbench.history.read_cache import ReadCache
from flashbench.history.series import Collected, SeriesKey, series_of
from flashbench.other_tools.asv_folder import Benchmark
from flashbench.parallel import in_threads
from flashbench.revisions.commits import Commit


def read(
    results: Path,
    commits: Sequence[Commit],
    *,
    failed: Mapping[str, str] | None = None,
    machine: str | None = None,
    cache: Path | None = None,
    prices: Mapping[str, DevicePrice] | None = None,
) -> History:
    """Load all results of these commits.

    failed: by commit hash, why it could not be built here, such as "missing header: ..."; no gap
    for a machine that measured it. machine: only this one. cache: the build cache, which keeps
    decoded files. prices: of machines, by a part of the name of their GPU or CPU. Raises
    InvalidInputError if there is no such folder or machine.
    """
    index = {commit.id: place for place, commit in enumerate(commits)}
    folders = machine_folders(results, machine)
    notes: list[str] = []
    described = benchmarks_of(results, notes)
    collected: dict[SeriesKey, Collected] = defaultdict(Collected)
    off_axis: dict[str, None] = {}
    machines = {folder.name: machine_of(folder, notes) for folder in folders}
    rates = {name: _rate(one, prices or {}) for name, one in machines.items()}
    spent: dict[tuple[str, int], list[Spent]] = defaultdict(list)

    def now(benchmark: str) -> str:
        """The version assumed for results without one: the current one, as in asv."""
        return described[benchmark].version if benchmark in described else ""

    paths = [(folder, path) for folder in folders for path in result_files(folder)]
    known = ReadCache(cache, results) if cache else None
    read = read_files([path for _, path in paths], known, everything=machine is None)
    for (folder, _), file in zip(paths, read, strict=True):
        if isinstance(file, str):
            notes.append(file)
            continue
        place = index.get(file.commit)
        if place is None:
            off_axis[file.commit] = None
            continue
        rate = rates[folder.name]
        if taken := Spent(file.measuring_seconds, builds=file.build_seconds, rate=rate):
            spent[folder.name, place].append(taken)
        start = 0
        for row, samples in zip(file.rows, file.samples, strict=True):
            end = start + row.combinations
            environment = names.environment(file.environment, row.benchmark)
            key = SeriesKey(
                folder.name, environment, row.benchmark, row.version or now(row.benchmark)
            )
            numbers = [None if one is None else one[start:end] for one in file.numbers]
            collected[key].add(place, row.params, numbers, file.failed[start:end], samples)
            start = end
    made = in_threads(
        lambda key: series_of(key, collected[key], described.get(key.benchmark)),
        _current(collected, described, notes),
    )
    series = [one for several in made for one in several]
    return History(
        tuple(commits),
        tuple(machines.values()),
        tuple(with_controls(series)),
        tuple(find_gaps(results, list(machines), failed or {}, index, series, notes)),
        tuple(off_axis),
        tuple(notes),
        {where: Spent.total(parts) for where, parts in spent.items()},
    )


def _rate(machine: Machine, prices: Mapping[str, DevicePrice]) -> DevicePrice | None:
    """What an hour of a machine costs: a machine with a GPU is rented for it."""
    return price_of(prices, machine.gpu) or price_of(prices, machine.cpu)


def _current(
    collected: dict[SeriesKey, Collected], described: Mapping[str, Benchmark], notes: list[str]
) -> list[SeriesKey]:
    """The keys of each benchmark's current version: that of benchmarks.json, as in asv, or, if it
    is not listed, that of the latest commit."""
    latest: dict[str, tuple[int, str]] = {}
    for key, found in collected.items():
        known = latest.get(key.benchmark, (-1, ""))
        latest[key.benchmark] = max(known, (max(found.commits), key.version))
    chosen, other = [], 0
    for key in collected:
        known_as = described.get(key.benchmark)
        version = known_as.version if known_as and known_as.version else latest[key.benchmark][1]
        if key.version == version:
            chosen.append(key)
        else:
            other += len(collected[key].commits)
    if other:
        notes.append(f"skipped {other} results of other versions of their benchmarks")
    return sorted(chosen)
