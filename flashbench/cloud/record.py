"""The local record of a job: enough to find it again after a crash or shutdown here."""

import contextlib
import os
from pathlib import Path

import msgspec

from flashbench.cloud.remote import Remote
from flashbench.cloud.sky import Rental
from flashbench.damage import UNREADABLE, damage
from flashbench.errors import InvalidInputError
from flashbench.files import replace_file
from flashbench.inputs import read_input

_MOST_BYTES = 1 << 20


class Record(msgspec.Struct, frozen=True):
    """A started job. machine: rented for it by SkyPilot, or None for `ssh`; config: of ssh, "" for
    the user's. folder: on the machine. created: seconds since 1970. seconds: its limit. result: the
    name of its run file there, "" without one; run_file: its path here. code: its exit code, once
    its results are downloaded. part: whether others measure the rest of the run; lost_after:
    seconds without a connection after which such a machine, or a spot machine, counts as lost."""

    name: str
    folder: str
    command: list[str]
    created: float
    seconds: float
    machine: Rental | None = None
    ssh: str = ""
    config: str = ""
    result: str = ""
    run_file: str = ""
    code: int | None = None
    part: bool = False
    lost_after: float = 180.0
    measured_on: tuple[str, str] = ("", "")  # device and its name, once its results are downloaded

    @property
    def place(self) -> Path:
        return home() / self.name

    @property
    def remote(self) -> Remote:
        config = Path(self.config) if self.config else None
        return Remote(self.ssh or self.name, self.folder, config)

    def save(self) -> None:
        replace_file(self.place / "job.json", msgspec.json.format(msgspec.json.encode(self)))


_DECODER = msgspec.json.Decoder(Record)


def home() -> Path:
    """The folder of all jobs, outside any repository."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "flashbench" / "cloud"


def measured_on(ssh: str) -> tuple[str, str]:
    """Device and its name in the last results of a machine reached by ssh; empty if unknown."""
    found = []
    for path in home().glob("*/job.json"):
        with contextlib.suppress(InvalidInputError):  # a damaged one is no reason to stop
            one = read(path.parent.name)
            if one and one.ssh == ssh and one.measured_on[0]:
                found.append(one)
    last = max(found, key=lambda one: one.created, default=None)
    return last.measured_on if last else ("", "")


def read(name: str) -> Record | None:
    """The record with this name; None without one. InvalidInputError if it is damaged."""
    if not name.replace("-", "").isalnum():
        raise InvalidInputError(f"{name[:100]!r} is no name of a job; see {home()}")
    path = home() / name / "job.json"
    if not path.exists():
        return None
    try:
        found = _DECODER.decode(read_input(path, _MOST_BYTES, "a job"))
        if found.name != name:
            raise ValueError(f"it is of job {found.name!r}")
        return found
    except (*UNREADABLE, msgspec.DecodeError) as error:
        raise InvalidInputError(
            f"{path}: cannot be read: {damage(error)}; to forget the job: rm -r {path.parent}"
        ) from None
