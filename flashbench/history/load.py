"""Reads asv's results folder into a history: results/MACHINE/COMMIT-ENVIRONMENT.json.

Nothing is imported, executed or opened that a file names. A file that cannot be read is passed over
with a note: one damaged file must not hide two thousand good ones.
"""

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from flashbench.candidates import SDPA
from flashbench.errors import InvalidInputError
from flashbench.foreign import document
from flashbench.foreign.series import SECONDS, find_case
from flashbench.history import names, rows
from flashbench.history.gaps import find_gaps
from flashbench.history.model import (
    FloatArray,
    History,
    IntArray,
    Machine,
    Points,
    Series,
)
from flashbench.history.read_cache import ReadCache, key_of
from flashbench.parallel import spread
from flashbench.project.commits import Commit
from flashbench.runfile import MAX_SECONDS, MIN_SECONDS

_MANY = 100  # files that are worth processes of their own
_FEWEST_FOR_INTERVAL = 8  # of fewer samples asv makes an interval up from an assumed distribution


class _Benchmark(msgspec.Struct, kw_only=True):
    """What benchmarks.json says of one."""

    unit: str = ""
    version: str = ""
    param_names: list[str] = msgspec.field(default_factory=list)


class _MachineFile(msgspec.Struct, kw_only=True):
    cpu: str = ""
    gpu: str = ""
    os: str = ""
    ram: str = ""


class _Key(NamedTuple):
    """What asv tells apart."""

    machine: str
    environment: str
    benchmark: str
    version: str


class _Collected:
    """The rows of one key: the combinations seen, and for each row its commit and numbers."""

    def __init__(self) -> None:
        self.combinations: dict[tuple[str, ...], int] = {}
        self.commits: list[int] = []
        self.places: list[IntArray] = []  # of each row, which combinations its numbers are of
        self.numbers: list[FloatArray] = []  # (len(rows.COLUMNS), combinations of the row)
        self.failed: list[NDArray[np.bool_]] = []
        self._known: tuple[rows.Params, IntArray] | None = None

    def add(
        self, commit: int, params: rows.Params, numbers: FloatArray, failed: NDArray[np.bool_]
    ) -> None:
        self.commits.append(commit)
        self.places.append(self._places(params))
        self.numbers.append(numbers)
        self.failed.append(failed)

    def sort(self) -> None:
        """By commit; rows of one commit stay in their order."""
        order = np.argsort(self.commits, kind="stable").tolist()
        for rows_ in (self.commits, self.places, self.numbers, self.failed):
            rows_[:] = [rows_[index] for index in order]

    def column(self, index: int) -> FloatArray:
        """One of rows.COLUMNS, of all rows."""
        return np.concatenate([numbers[index] for numbers in self.numbers])

    def _places(self, params: rows.Params) -> IntArray:
        if self._known is None or self._known[0] != params:
            found = self.combinations
            places = [found.setdefault(values, len(found)) for values in itertools.product(*params)]
            self._known = params, np.array(places, dtype=np.int64)
        return self._known[1]


def load(
    results: Path,
    commits: Sequence[Commit],
    *,
    failed: Mapping[str, str] | None = None,
    machine: str | None = None,
    cache: Path | None = None,
) -> History:
    """Everything that asv's results folder holds of these commits.

    failed: why a commit could not be built here, by its hash, in words like "missing header: ...";
    no gap of a machine that has measured it. machine: only this one. cache: the build cache, where
    what was read of many files is kept.
    Raises InvalidInputError where there is no such folder or machine.
    """
    index = {commit.id: place for place, commit in enumerate(commits)}
    folders = _machine_folders(results, machine)
    notes: list[str] = []
    described = _described(results, notes)
    collected: dict[_Key, _Collected] = defaultdict(_Collected)
    off_axis: dict[str, None] = {}

    def now(benchmark: str) -> str:
        """Results that name no version are taken for ones of the present, as asv does."""
        return described[benchmark].version if benchmark in described else ""

    paths = [(folder, path) for folder in folders for path in _result_files(folder)]
    known = ReadCache(cache, results) if cache else None
    read = _read([path for _, path in paths], known, everything=machine is None)
    for (folder, _), file in zip(paths, read, strict=True):
        if isinstance(file, str):
            notes.append(file)
            continue
        place = index.get(file.commit)
        if place is None:
            off_axis[file.commit] = None
            continue
        start = 0
        for row in file.rows:
            end = start + row.combinations
            environment = names.environment(file.environment, row.benchmark)
            key = _Key(folder.name, environment, row.benchmark, row.version or now(row.benchmark))
            collected[key].add(
                place, row.params, file.numbers[:, start:end], file.failed[start:end]
            )
            start = end
    series = [
        one
        for key in _current(collected, described, notes)
        for one in _series(key, collected[key], described.get(key.benchmark))
    ]
    machines = [folder.name for folder in folders]
    return History(
        tuple(commits),
        tuple(_machine(folder, notes) for folder in folders),
        tuple(_with_controls(series)),
        tuple(find_gaps(results, machines, failed or {}, index, series, notes)),
        tuple(off_axis),
        tuple(notes),
    )


def _machine_folders(results: Path, machine: str | None) -> list[Path]:
    try:
        folders = sorted(path for path in results.iterdir() if path.is_dir())
    except OSError as error:
        raise InvalidInputError(
            f"{results}: no history can be read ({error.strerror}); measure one with `asv run`, or "
            "keep run files with `flashbench record`"
        ) from None
    if machine is not None:
        known = ", ".join(folder.name for folder in folders) or "none"
        folders = [folder for folder in folders if folder.name == machine]
        if not folders:
            raise InvalidInputError(f"{results}: no machine {machine!r}; there is {known}")
    return folders


def _read(
    paths: list[Path], cache: ReadCache | None, *, everything: bool
) -> list[rows.ResultFile | str]:
    """Each file, or what is wrong with it. cache: of few files it is no faster than they are;
    everything: whether these are all files of the history, so that the rest of it can go."""
    if cache is None or len(paths) < _MANY:
        return _decoded(paths, None)
    keys = [key_of(path) for path in paths]
    known = [cache.get(key) for key in keys]
    if everything:
        cache.keep_only(set(keys))
    new = iter(_decoded([path for path, file in zip(paths, known, strict=True) if not file], cache))
    return [file or next(new) for file in known]


def _decoded(paths: list[Path], cache: ReadCache | None) -> list[rows.ResultFile | str]:
    """Each file, or what is wrong with it; in `cache` as well."""
    reader = rows.Reader()  # of each process its own

    def decode(number: int) -> rows.ResultFile | str:
        path = paths[number]
        try:
            content = document.content(path)
            file = reader.decode(content, path)
        except InvalidInputError as error:
            return str(error)
        if cache is not None:
            cache.put(content, file)
        return file

    return spread(decode, len(paths), least=_MANY)


def _result_files(folder: Path) -> list[Path]:
    found = sorted(folder.glob("[!.]*.json"), key=lambda path: path.name)  # paths compare slowly
    return [path for path in found if path.name != "machine.json"]


def _machine(folder: Path, notes: list[str]) -> Machine:
    path = folder / "machine.json"
    found = _MachineFile()
    if path.is_file():
        try:
            found = msgspec.json.decode(document.content(path), type=_MachineFile)
        except (InvalidInputError, *rows.UNREADABLE) as error:
            notes.append(f"{path}: damaged asv machine file: {error}")
    return Machine(folder.name, found.cpu, found.gpu, found.os, found.ram)


def _described(results: Path, notes: list[str]) -> dict[str, _Benchmark]:
    """benchmarks.json by name; ours are known without it."""
    found = {
        name: _Benchmark(
            unit=names.UNITS[parts.quantity],
            version=names.VERSION,
            param_names=list(names.PARAMETERS),
        )
        for name, parts in names.OURS.items()
    }
    path = results / "benchmarks.json"
    if not path.is_file():
        return found
    try:
        content = msgspec.json.decode(document.content(path), type=dict[str, msgspec.Raw])
    except (InvalidInputError, *rows.UNREADABLE) as error:
        notes.append(f"{path}: damaged asv benchmarks file: {error}")
        return found
    for name, value in content.items():
        if name == "version" or name in names.OURS:
            continue
        try:
            found[name] = msgspec.json.decode(value, type=_Benchmark)
        except rows.UNREADABLE as error:
            notes.append(f"{path}: damaged asv benchmarks file: {name!r}: {error}")
    return found


def _current(
    collected: dict[_Key, _Collected], described: Mapping[str, _Benchmark], notes: list[str]
) -> list[_Key]:
    """Of each benchmark the version that benchmarks.json has, as asv does; of one that it does not
    list, the version of the latest commit."""
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
        notes.append(f"{other} results are of other versions of their benchmarks: passed over")
    return sorted(chosen)


def _series(key: _Key, collected: _Collected, described: _Benchmark | None) -> list[Series]:
    ours = names.OURS.get(key.benchmark)
    unit = described.unit if described else ""
    titles = described.param_names if described else []
    collected.sort()
    sizes = [len(places) for places in collected.places]
    combination = np.concatenate(collected.places)
    commit = np.repeat(np.array(collected.commits, dtype=np.int64), sizes)
    # By combination, then commit; of two files of one commit the later one counts.
    order = np.argsort(combination, kind="stable")
    again = np.zeros(len(order), dtype=bool)
    same = combination[order][1:] == combination[order][:-1]
    again[:-1] = same & (commit[order][1:] == commit[order][:-1])
    order = order[~again]
    failed = order[np.concatenate(collected.failed)[order]]
    order = order[_possible(collected.column(0)[order], unit)]
    columns = [_taken(collected.column(index), order) for index in range(len(rows.COLUMNS))]
    points = _points(commit[order], columns, ours is not None)
    every = np.arange(len(collected.combinations) + 1)
    point_ends = np.searchsorted(combination[order], every).tolist()
    failed_ends = np.searchsorted(combination[failed], every).tolist()
    failed_commit = commit[failed]
    made = []
    for values, place in collected.combinations.items():
        texts = tuple(value.strip("'\"") for value in values)
        parameters = itertools.zip_longest(titles[: len(texts)], texts, fillvalue="")
        case = next(filter(None, map(find_case, texts)), "")
        others = [text for text in texts if not case or case not in text]
        made.append(
            Series(
                machine=key.machine,
                environment=key.environment,
                benchmark=key.benchmark,
                parameters=tuple(parameters),
                unit=unit,
                points=points[point_ends[place] : point_ends[place + 1]],
                metric=ours.metric if ours else "",
                case=case,
                candidate=", ".join(others) if case else "",
                failed=failed_commit[failed_ends[place] : failed_ends[place + 1]],
            )
        )
    return made


def _taken(column: FloatArray, order: IntArray) -> FloatArray:
    """column[order]; fast for what no file has."""
    return np.full(len(order), np.nan) if np.isnan(column).all() else column[order]


def _possible(value: FloatArray, unit: str) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):
        possible = (value >= 1e-300) & (value <= 1e300)
        if unit == SECONDS:
            possible &= (value >= MIN_SECONDS) & (value <= MAX_SECONDS)
    return possible


def _points(commit: IntArray, columns: list[FloatArray], of_launches: bool) -> Points:
    value, low, high, q25, q75, repeat, p90, p99 = columns
    with np.errstate(invalid="ignore"):
        bounded = np.isfinite(low) & np.isfinite(high) & (low <= value) & (value <= high)
        bounded &= (repeat >= _FEWEST_FOR_INTERVAL) & (low > 0)
    launches = np.nan_to_num(repeat, posinf=0).clip(0, 2**53) if of_launches else 0 * commit
    return Points(
        commit,
        value,
        np.where(bounded, low, np.nan),
        np.where(bounded, high, np.nan),
        q25,
        q75,
        launches.astype(np.int64),
        p90,
        p99,
    )


def _with_controls(series: list[Series]) -> list[Series]:
    """SDPA and the ratio to it beside each candidate; that ratio is no series of its own then."""
    places = {_place(one): one for one in series}
    used: set[int] = set()
    made = []
    for one in series:
        timed = one.unit == SECONDS and one.case and not one.baseline
        control = places.get(_place(one)._replace(candidate=SDPA)) if timed else None
        if control is not None:
            measured = places.get(_place(one)._replace(benchmark=_ratio_of(one.benchmark)))
            if measured is not None:
                used.add(id(measured))
            ratio = measured.points if measured else _quotient(one.points, control.points)
            made.append((one, replace(one, control=control.points, ratio=ratio)))
        else:
            made.append((one, one))
    return [after for before, after in made if id(before) not in used]


class _Place(NamedTuple):
    machine: str
    environment: str
    benchmark: str
    case: str
    candidate: str


def _place(series: Series) -> _Place:
    return _Place(
        series.machine, series.environment, series.benchmark, series.case, series.candidate
    )


def _ratio_of(benchmark: str) -> str:
    """The benchmark that has the ratios to the times of this one; "" for what is not ours."""
    ours = names.OURS.get(benchmark)
    return str(ours._replace(quantity=names.RATIO)) if ours else ""


def _quotient(points: Points, control: Points) -> Points:
    """Of medians, at the commits that have both: without launches to pair it has no interval."""
    commit, mine, theirs = np.intersect1d(points.commit, control.commit, return_indices=True)
    unknown = np.full(len(commit), np.nan)
    return Points(
        commit,
        points.value[mine] / control.value[theirs],
        unknown,
        unknown,
        unknown,
        unknown,
        np.minimum(points.launches[mine], control.launches[theirs]),
        unknown,
        unknown,
    )
