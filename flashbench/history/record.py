"""Records that asv has no column for: a commit's build, and why it failed or could not be measured.

One JSON file a commit and environment: `.asv/flashbench/MACHINE/COMMIT-ENVIRONMENT.json`, of a
results folder elsewhere `RESULTS/.flashbench/MACHINE/...`, and with `.cpu.json` and `.cuda.json`
the run files of what was measured there.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from flashbench.builds import Build, Status
from flashbench.damage import UNREADABLE, damage
from flashbench.errors import InvalidInputError
from flashbench.files import replace_file
from flashbench.inputs import read_input
from flashbench.runfile import RunFile

if TYPE_CHECKING:
    from flashbench.revisions import Built

_MAX_BYTES = 2**27
VARIABLE = "ASV_FLASHBENCH_RECORD"  # where a process of an asv environment finds its record


class CommitRecord(msgspec.Struct, kw_only=True):
    """One commit in one environment."""

    format: str = "flashbench-commit"
    version: int = 1
    commit: str
    environment: str
    status: Status  # of the build, or "wrong result"
    build: Build
    failure: str = ""  # why nothing could be measured, or what was wrong


_RECORD = msgspec.json.Decoder(CommitRecord)


def of_built(built: "Built", environment: str, wrong: str = "") -> CommitRecord:
    """What became of a commit that was prepared. wrong: the first result that was, and how."""
    status: Status = "wrong result" if wrong else built.status
    return CommitRecord(
        commit=built.revision.commit,
        environment=environment,
        status=status,
        build=built.build,
        failure="" if status == "built" else f"{status}: {wrong or built.reason}",
    )


def wrong_results(run: RunFile) -> dict[str, str]:
    """By commit, the first wrong result and the case."""
    commits = {candidate.name: candidate.build.commit for candidate in run.candidates}
    found: dict[str, str] = {}
    for launch in run.launches:
        for result in launch.results:
            if result.status == "wrong" and (commit := commits[result.candidate]):
                found.setdefault(commit, f"{result.case}: {result.reason}")
    return found


def path_of(results: Path, machine: str, commit: str, environment: str) -> Path:
    """Where the record lies; `results` is asv's results directory."""
    safe = re.sub(r"[^A-Za-z0-9._+-]", "_", environment)
    return _folder(results.absolute(), machine) / f"{commit}-{safe}.json"


def _folder(results: Path, machine: str) -> Path:
    """Inside of a results folder that the user named: what lies beside it is none of ours. Older
    versions wrote beside it, and go on to be read there."""
    beside = results.parent / "flashbench" / machine
    if results.parent.name == ".asv" or beside.is_dir():
        return beside
    return results / ".flashbench" / machine


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
        return _RECORD.decode(read_input(path, _MAX_BYTES, "a record"))
    except UNREADABLE as error:
        raise InvalidInputError(f"{path}: damaged record: {damage(error)}; run asv again") from None


def write(path: Path, record: CommitRecord) -> None:
    """Replace the file in one step."""
    replace_file(path, msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")
