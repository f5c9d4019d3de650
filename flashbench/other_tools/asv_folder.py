"""Read what asv keeps beside its results, machine.json and benchmarks.json: the only reader."""

from pathlib import Path
from typing import Any

import msgspec

from flashbench.damaged_files import damage
from flashbench.errors import InvalidInputError
from flashbench.other_tools import untrusted_json

_MACHINE, _BENCHMARKS = "asv machine file", "asv benchmarks file"


class Benchmark(msgspec.Struct, kw_only=True):
    """A benchmark's entry in benchmarks.json."""

    unit: str = ""
    version: str = ""
    param_names: list[str] = msgspec.field(default_factory=list)


class MachineFile(msgspec.Struct, kw_only=True):
    """The hardware that machine.json describes; "" for what it leaves out."""

    cpu: str = ""
    gpu: str = ""
    os: str = ""
    ram: str = ""


def machine_object(path: Path) -> dict[str, Any]:
    """The JSON object of machine.json, with fields of any tool. Raises InvalidInputError."""
    return _object(path, _MACHINE)


def read_machine(path: Path) -> MachineFile:
    """The machine that machine.json describes. Raises InvalidInputError."""
    return untrusted_json.typed(machine_object(path), MachineFile, f"{path}: damaged {_MACHINE}")


def benchmarks_object(path: Path) -> dict[str, Any]:
    """The JSON object of benchmarks.json. Raises InvalidInputError."""
    return _object(path, _BENCHMARKS)


def read_benchmarks(path: Path) -> tuple[dict[str, Benchmark], list[str]]:
    """The entries of benchmarks.json by name, and a line for each that is damaged.

    Values that are no objects, such as the version, are no benchmarks. Raises InvalidInputError if
    the file is damaged as a whole.
    """
    found, damaged = {}, []
    for name, value in benchmarks_object(path).items():
        if not isinstance(value, dict):
            continue
        try:
            place = f"{path}: damaged {_BENCHMARKS}: {name!r}"
            found[name] = untrusted_json.typed(value, Benchmark, place)
        except InvalidInputError as error:
            damaged.append(str(error))
    return found, damaged


def _object(path: Path, kind: str) -> dict[str, Any]:
    try:
        content = untrusted_json.parse(path)
    except ValueError as error:
        raise InvalidInputError(f"{path}: damaged {kind}: {damage(error)}; move it away") from None
    if not isinstance(content, dict):
        raise InvalidInputError(f"{path}: damaged {kind}: no object; move it away")
    return content
