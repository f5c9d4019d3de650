"""Recognise files that flashbench itself writes into a working tree: they are not sources."""

from pathlib import Path, PurePath

from flashbench.files import is_leftover

# Their first bytes; names do not matter.
_HEADS = (
    b'{"format":"flashbench-run"',
    b'{"format":"flashbench-profile"',
    b'{"format":"flashbench-suite"',
    b"<!-- flashbench roofline -->",
)
_REPORT = ".ncu-rep"  # Nsight Compute's, beside a profile
_LOCK = b'{"pid":'
_HISTORY = ".asv"  # where asv and `flashbench record` keep results


def is_ours(repository: Path, name: str) -> bool:
    """Whether an untracked file (path from the repository's root) is a run file or profile, lies
    beside one, was left by a killed writer, or is part of a history in `.asv`.

    A measurement that changed the sources could never be resumed. Reads only the first bytes of a
    file; OSError if that fails.
    """
    path = repository / name
    if PurePath(name).parts[0] == _HISTORY or is_leftover(path.name):
        return True
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(max(map(len, _HEADS)))
    # A new lock is empty until its holder writes into it.
    is_lock = path.name.startswith(".") and path.suffix == ".lock"
    if path.suffix == _REPORT or head.startswith(_HEADS):
        return True
    return is_lock and (not head or head.startswith(_LOCK))
