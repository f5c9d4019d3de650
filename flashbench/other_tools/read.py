"""Read a path as a BenchmarkSet: a file, or a folder with one file per process of one build."""

from collections.abc import Sequence
from pathlib import Path

from flashbench.errors import InvalidInputError
from flashbench.other_tools import asv, own, pyperf, pytest_benchmark
from flashbench.other_tools.benchmarks import BenchmarkSet, joined
from flashbench.other_tools.detect import Kind, opened

_READERS = {Kind.ASV: asv.read, Kind.PYTEST: pytest_benchmark.read, Kind.PYPERF: pyperf.read}


def read(path: Path, metric: str | None = None) -> BenchmarkSet:
    """All benchmarks of a file or folder. metric: of our run files; None: each case's default.

    Raises InvalidInputError naming the file and the damage.
    """
    if not path.is_dir():
        return _read_file(path, metric)
    sets = []
    for file in sorted(path.glob("*.json")):
        if file.is_file() and not file.name.startswith("."):
            kind, _ = opened(file)
            if kind is not Kind.ASV_OTHER:
                sets.append(_read_file(file, metric))
    if not sets:
        raise InvalidInputError(
            f"{path}: no result files in this folder (*.json, one per process); "
            "name a folder that has some, or a file"
        )
    _check_alike(path, sets)
    return joined(str(path), sets)


def _read_file(path: Path, metric: str | None) -> BenchmarkSet:
    try:
        kind, content = opened(path)
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot be read: {error.strerror}") from None
    reader = _READERS.get(kind) if kind else None
    if reader is None:
        return own.read(path, metric)  # reports the damage if the file is not ours either
    return reader(path, content)


def _check_alike(path: Path, sets: Sequence[BenchmarkSet]) -> None:
    """Refuse to join files of different tools, commits or machines."""
    for what in ("tool", "commit", "machine", "cpu", "gpu", "torch"):
        found = sorted({getattr(one, what) for one in sets} - {""})
        if len(found) > 1:
            raise InvalidInputError(
                f"{path}: files of more than one {what}: {found[0]!r} and {found[1]!r}; "
                "keep each side's files in a separate folder"
            )
