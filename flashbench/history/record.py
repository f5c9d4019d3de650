"""What asv has no column for: a commit's build, why it failed, and proof of what was measured.

One JSON file a commit and environment, beside asv's results:
`.asv/flashbench/MACHINE/COMMIT-ENVIRONMENT.json`, and with `.cpu.json` and `.cuda.json` the run
files of what was measured there.
"""

import re
from pathlib import Path

import msgspec

from flashbench.build import Build, Status
from flashbench.errors import InvalidInputError
from flashbench.files import replace_file

VARIABLE = "ASV_FLASHBENCH_RECORD"  # where a process of an asv environment finds its record


class Proof(msgspec.Struct, kw_only=True):
    """Whether the loaded library is the commit's, and what that was decided from."""

    holds: bool
    reason: str = ""  # why it does not hold
    library: str = ""
    library_hash: str = ""  # sha256 of the loaded file
    stated_source_hash: str = ""  # what the loaded library says of itself
    expected_source_hash: str = ""  # of the commit's tree in git


class CommitRecord(msgspec.Struct, kw_only=True):
    """One commit in one environment."""

    format: str = "flashbench-commit"
    version: int = 1
    commit: str
    environment: str
    status: Status  # of the build, or "wrong result"
    build: Build
    proof: Proof | None = None  # None: nothing was loaded for measuring yet
    failure: str = ""  # why nothing could be measured, or what was wrong


def path_of(results: Path, machine: str, commit: str, environment: str) -> Path:
    """Where the record lies; `results` is asv's results directory."""
    safe = re.sub(r"[^A-Za-z0-9._+-]", "_", environment)
    return results.absolute().parent / "flashbench" / machine / f"{commit}-{safe}.json"


def run_path(record: Path, device: str) -> Path:
    """Where the run file of a record and a device lies."""
    return record.with_suffix(f".{device}.json")


def paths(results: Path, machine: str) -> list[Path]:
    """The records of a machine."""
    folder = path_of(results, machine, "", "").parent
    # Run files lie beside them, with the device in the name.
    return sorted(
        path for path in folder.glob("*.json") if not path.stem.endswith((".cpu", ".cuda"))
    )


def read(path: Path) -> CommitRecord:
    """InvalidInputError says what is wrong with the file."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=CommitRecord)
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path}: damaged record: {error}; run asv again") from None


def write(path: Path, record: CommitRecord) -> None:
    """Replace the file in one step."""
    replace_file(path, msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")
