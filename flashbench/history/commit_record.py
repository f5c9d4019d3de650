"""Records of what asv has no column for: a commit's build, and why it failed or was not measured.

One JSON file per commit and environment: `.asv/flashbench/MACHINE/COMMIT-ENVIRONMENT.json`, or for
another results folder `RESULTS/.flashbench/MACHINE/...`. The run files of the same measurement lie
beside it with the suffixes `.cpu.json` and `.cuda.json`, and so does `machine.json`, the machine's
peak rates.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from flashbench.builds import Build, BuildStatus
from flashbench.damaged_files import UNREADABLE, damage
from flashbench.errors import InvalidInputError
from flashbench.files import replace_file
from flashbench.format_version import head_of
from flashbench.inputs import read_input
from flashbench.revisions.ledger import RevisionOutcome
from flashbench.runfile import RunFile

if TYPE_CHECKING:
    from flashbench.revisions import Built

_MAX_BYTES = 2**27
VARIABLE = "ASV_FLASHBENCH_RECORD"  # where processes of an asv environment find their record


class CommitRecord(msgspec.Struct, kw_only=True):
    """The outcome of one commit in one environment, and its build."""

    format: str = "flashbench-commit"
    version: int = 2
    environment: str
    outcome: RevisionOutcome  # "wrong result" also for what a launch found
    build: Build


class _Version1(msgspec.Struct):
    """failure: why nothing was measured, or what was wrong: "STATUS: REASON", empty when built."""

    commit: str
    environment: str
    status: BuildStatus
    build: Build
    failure: str = ""

    def current(self) -> CommitRecord:
        outcome = RevisionOutcome(
            commit=self.commit,
            status=self.status,
            reason=self.failure.removeprefix(f"{self.status}: "),
            stage="build",  # at least
            build=self.build.key,
            toolchain="",  # not recorded
        )
        return CommitRecord(environment=self.environment, outcome=outcome, build=self.build)


_RECORD = msgspec.json.Decoder(CommitRecord)
_VERSION_1 = msgspec.json.Decoder(_Version1)


def of_built(built: "Built", environment: str, wrong: str = "") -> CommitRecord:
    """The record of a prepared commit. wrong: its first wrong result, with the reason."""
    outcome = built.outcome
    if wrong:
        outcome = msgspec.structs.replace(outcome, status="wrong result", reason=wrong)
    return CommitRecord(environment=environment, outcome=outcome, build=built.build)


def wrong_results(run: RunFile) -> dict[str, str]:
    """The first wrong result of each commit, with its case."""
    commits = {candidate.name: candidate.build.commit for candidate in run.candidates}
    found: dict[str, str] = {}
    for launch in run.launches:
        for result in launch.results:
            if result.status == "wrong" and (commit := commits[result.candidate]):
                found.setdefault(commit, f"{result.case}: {result.reason}")
    return found


def path_of(results: Path, machine: str, commit: str, environment: str) -> Path:
    """The record's path. results: asv's results directory."""
    safe = re.sub(r"[^A-Za-z0-9._+-]", "_", environment)
    return _folder(results.absolute(), machine) / f"{commit}-{safe}.json"


def _folder(results: Path, machine: str) -> Path:
    """Inside a results folder that the user named, because what lies beside it is not ours. Older
    versions wrote beside it; those records are still read."""
    beside = results.parent / "flashbench" / machine
    if results.parent.name == ".asv" or beside.is_dir():
        return beside
    return results / ".flashbench" / machine


def run_path(record: Path, device: str) -> Path:
    """The path of a record's run file for a device."""
    return record.with_suffix(f".{device}.json")


def machine_path(results: Path, machine: str) -> Path:
    """The path of a machine's profile, which has its peak rates."""
    return _folder(results.absolute(), machine) / "machine.json"


def paths(results: Path, machine: str) -> list[Path]:
    """The paths of a machine's records."""
    folder = path_of(results, machine, "", "").parent
    # Run files lie beside them, with the device in the name.
    return sorted(
        path for path in folder.glob("*-*.json") if not path.stem.endswith((".cpu", ".cuda"))
    )


def read(path: Path) -> CommitRecord:
    """Read a record; InvalidInputError names the damage."""
    try:
        document = read_input(path, _MAX_BYTES, "a record")
        if head_of(document).version < 2:
            return _VERSION_1.decode(document).current()
        return _RECORD.decode(document)
    except UNREADABLE as error:
        raise InvalidInputError(f"{path}: damaged record: {damage(error)}; run asv again") from None


def write(path: Path, record: CommitRecord) -> None:
    """Atomically write a record."""
    replace_file(path, msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")
