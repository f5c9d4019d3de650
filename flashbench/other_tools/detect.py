"""Recognise the tool that wrote a file, by its content and never by its name."""

from enum import StrEnum
from pathlib import Path
from typing import Any

from flashbench.errors import InvalidInputError
from flashbench.inputs import descriptor
from flashbench.other_tools import untrusted_json
from flashbench.runfile import FORMAT


class Kind(StrEnum):
    """The tool that wrote a file."""

    OURS = "flashbench"
    ASV = "asv"
    ASV_OTHER = "asv's machine or benchmarks file"  # beside the results; no times in it
    PYTEST = "pytest-benchmark"
    PYPERF = "pyperf"


def kind_of(content: Any) -> Kind | None:
    """The tool that wrote this JSON value, or None."""
    if not isinstance(content, dict):
        return None
    if content.get("format") == FORMAT:
        return Kind.OURS
    if "result_columns" in content or {"commit_hash", "results"} <= content.keys():
        return Kind.ASV
    if {"machine_info", "benchmarks"} <= content.keys():
        return Kind.PYTEST
    if isinstance(content.get("benchmarks"), list) and "version" in content:
        return Kind.PYPERF
    if {"machine", "version"} <= content.keys() or any(
        isinstance(value, dict) and "param_names" in value for value in content.values()
    ):
        return Kind.ASV_OTHER
    return None


def opened(path: Path) -> tuple[Kind | None, Any]:
    """The tool and the JSON value of a file; (None, None) if it is not JSON.

    A run file of ours is recognised by its first bytes and not parsed. Raises OSError, and
    InvalidInputError for a file that is too large.
    """
    if f'"{FORMAT}"'.encode() in untrusted_json.head(path):
        return Kind.OURS, None
    try:
        content = untrusted_json.parse(path)
    except ValueError:
        return None, None
    return kind_of(content), content


def holds_measurements(path: Path) -> bool:
    """Whether this is a regular file of measurements, ours or another tool's; a file too large to
    inspect counts as one."""
    try:
        if not path.is_file() or not untrusted_json.head(path).lstrip().startswith(b"{"):
            return False
        return opened(path)[0] is not None
    except OSError:
        return False
    except InvalidInputError:
        return True


def is_other_tools(path: Path) -> bool:
    """Whether `path` is another tool's result file, or a folder of such files."""
    try:
        if path.is_dir():
            return True
        if not path.is_file() and descriptor(path) is None:
            return False
        return opened(path)[0] in (Kind.ASV, Kind.PYTEST, Kind.PYPERF)
    except OSError:
        return False
