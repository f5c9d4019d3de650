"""Measured peaks for a roofline: of a file, or of the machine that made a run file."""

import platform
from pathlib import Path

import msgspec

from flashbench import machine
from flashbench.errors import InvalidInputError
from flashbench.inputs import read_input
from flashbench.run_validation import possible_peaks
from flashbench.runfile import Ceilings, RunFile

_MOST_ROOFS = 2**24  # bytes


class _Roofs(msgspec.Struct):
    """The common part of files with ceilings: `info --peak --format json`, the machine's profile
    ($FLASHBENCH_MACHINE) and case profiles."""

    ceilings: Ceilings | list[Ceilings | None] | None = None


_ROOFS = msgspec.json.Decoder(_Roofs)


def read_roofs(path: Path) -> list[Ceilings]:
    """The peaks of a file. Raises InvalidInputError if it has none."""
    try:
        found = _ROOFS.decode(read_input(path, _MOST_ROOFS, "a profile"))
        listed = found.ceilings if isinstance(found.ceilings, list) else [found.ceilings]
        ceilings = [one for one in listed if one is not None]
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        raise InvalidInputError(f"{path}: not a file with peaks: {error}") from None
    if not ceilings or not all(map(possible_peaks, ceilings)):
        raise InvalidInputError(
            f"{path}: has no measured peaks; make one with: flashbench info --peak --format json"
        )
    return ceilings


def known_roofs(path: Path, run: RunFile) -> list[Ceilings]:
    """Those in the run file, of this machine if it made the file, and of a machine's profile beside
    it."""
    return [*run.ceilings, *_of_this_machine(run), *_beside(path)]


def _of_this_machine(run: RunFile) -> list[Ceilings]:
    """This machine's stored ceilings, if it made the run file."""
    if run.environment.hostname != platform.node():
        return []
    return machine.read(machine.path()).ceilings


def _beside(path: Path) -> list[Ceilings]:
    """Those of a machine profile in the run file's folder."""
    try:
        found = machine.read(path.with_name("machine.json")).ceilings
    except InvalidInputError:
        return []  # another program's, such as asv's
    return [one for one in found if possible_peaks(one)]
