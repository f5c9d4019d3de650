"""Read the files of asv's results folder. A damaged file becomes a note and hides no other."""

from pathlib import Path

from flashbench.damaged_files import UNREADABLE
from flashbench.errors import InvalidInputError, NotMeasuredError
from flashbench.history import asv_result, asv_row, names
from flashbench.history.asv_row import AsvCell
from flashbench.history.model import Machine
from flashbench.history.read_cache import ReadCache
from flashbench.inputs import reason
from flashbench.other_tools import asv_folder, untrusted_json
from flashbench.other_tools.asv_file import Decoder, damaged
from flashbench.other_tools.asv_folder import Benchmark
from flashbench.parallel import in_threads, spread

_MANY = 100  # files from which parallel processes pay
_FIX = "measure one with `asv run`, or keep run files with `flashbench record`"


def results_folder(named: Path | None, repository: Path) -> Path:
    """The named folder, or the repository's own. Raises NotMeasuredError if the repository has none
    because nothing was measured yet."""
    if named is not None:
        return named
    folder = repository / ".asv" / "results"
    if not folder.is_dir():
        raise NotMeasuredError(f"{folder}: there is no history yet; {_FIX}")
    return folder


def machine_folders(results: Path, machine: str | None) -> list[Path]:
    """The folder of each machine, or of this one. Raises InvalidInputError if there is none."""
    try:
        # Names of machines do not begin with a dot; our own records do
        # (flashbench/history/commit_record.py).
        folders = sorted(
            path for path in results.iterdir() if path.is_dir() and not path.name.startswith(".")
        )
    except OSError as error:
        raise InvalidInputError(
            f"{results}: no history can be read ({reason(error)}); {_FIX}"
        ) from None
    if machine is not None:
        known = ", ".join(folder.name for folder in folders) or "none"
        folders = [folder for folder in folders if folder.name == machine]
        if not folders:
            raise InvalidInputError(f"{results}: no machine {machine!r}; there is {known}")
    return folders


def result_files(folder: Path) -> list[Path]:
    """The result files of a machine, sorted by name."""
    found = sorted(
        folder.glob("[!.]*.json"), key=lambda path: path.name
    )  # names, because paths compare slowly
    return [path for path in found if path.name != "machine.json"]


def read_files(
    paths: list[Path], cache: ReadCache | None, *, everything: bool
) -> list[asv_result.ResultFile | str]:
    """Each file, or its error. cache: unused for few files, where it saves nothing. everything:
    these are all files of the history, so other cache entries are removed."""
    if cache is None or len(paths) < _MANY:
        return _decoded(paths, None)
    keys = cache.keys(paths, everything=everything)
    known = in_threads(cache.get, keys)
    if everything:
        cache.keep_only(set(keys))
    new = iter(_decoded([path for path, file in zip(paths, known, strict=True) if not file], cache))
    return [file or next(new) for file in known]


def _decoded(paths: list[Path], cache: ReadCache | None) -> list[asv_result.ResultFile | str]:
    """Each file, or its error; also stored in `cache`."""
    reader = asv_result.Reader()  # one per process

    def decode(number: int) -> asv_result.ResultFile | str:
        path = paths[number]
        try:
            content = untrusted_json.content(path)
            file = reader.decode(content, path)
        except InvalidInputError as error:
            return str(error)
        if cache is not None:
            cache.put(content, file)
        return file

    return spread(decode, len(paths), least=_MANY)


def machine_of(folder: Path, notes: list[str]) -> Machine:
    """The machine that machine.json describes."""
    path, found = folder / "machine.json", asv_folder.MachineFile()
    if path.is_file():
        try:
            found = asv_folder.read_machine(path)
        except InvalidInputError as error:
            notes.append(str(error))
    return Machine(folder.name, found.cpu, found.gpu, found.os, found.ram)


def benchmarks_of(results: Path, notes: list[str]) -> dict[str, Benchmark]:
    """The entries of benchmarks.json by name, and our own benchmarks without it."""
    ours = {
        name: Benchmark(
            unit=parts.unit,
            version=names.VERSION,
            param_names=list(names.PARAMETERS),
        )
        for name, parts in names.OURS.items()
    }
    path = results / "benchmarks.json"
    if not path.is_file():
        return ours
    try:
        found, damaged = asv_folder.read_benchmarks(path)
    except InvalidInputError as error:
        notes.append(str(error))
        return ours
    notes += damaged
    return found | ours


def cells_at(
    folder: Path, commit: str, environment: str
) -> dict[str, dict[tuple[str, ...], AsvCell]]:
    """The cells of our benchmarks in a commit's result files; of duplicates, the later counts.

    folder: of the machine. Raises InvalidInputError.
    """
    found: dict[str, dict[tuple[str, ...], AsvCell]] = {}
    decoder = Decoder()
    for path in sorted(folder.glob(f"{commit[:8]}*.json")):
        file = decoder.decode(untrusted_json.content(path), path)
        if file.commit != commit:
            continue
        try:
            for row in file.rows:
                name = row.benchmark
                if name not in names.OURS:
                    continue
                if names.environment(file.environment, name) == environment:
                    found.setdefault(name, {}).update(asv_row.cells_of(row))
        except UNREADABLE as error:
            raise damaged(path, error) from None
    return found
