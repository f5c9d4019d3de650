"""The local record of a job: enough to find it again after a crash or shutdown here."""

import contextlib
import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from flashbench.cloud.remote import Remote
from flashbench.cloud.sky import Rental
from flashbench.damaged_files import UNREADABLE, damage
from flashbench.errors import InvalidInputError
from flashbench.files import replace_file
from flashbench.fleet.merge import total_costs
from flashbench.inputs import read_input
from flashbench.runfile import Costs

_MOST_BYTES = 1 << 20


class JobRecord(msgspec.Struct, frozen=True):
    """A started job. machine: rented for it by SkyPilot, or None for `ssh`; config: of ssh, "" for
    the user's. folder: on the machine. created: seconds since 1970. seconds: its limit. result: the
    name of its run file there, "" without one; run_file: its path here. code: its exit code, once
    its results are downloaded. part: whether others measure the rest of the run; lost_after:
    seconds without a connection after which such a machine, or a spot machine, counts as lost;
    lost_seconds: device seconds of lost machines that no result has; rented_since: the start of the
    rented machine, 0 without one; rented_before: the paid seconds of machines before it."""

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
    lost_seconds: float = 0.0
    rented_since: float = 0.0
    rented_before: float = 0.0
    measured_on: tuple[str, str] = ("", "")  # device and its name, once its results are downloaded

    @property
    def place(self) -> Path:
        return home() / self.name

    @property
    def remote(self) -> Remote:
        config = Path(self.config) if self.config else None
        return Remote(self.ssh or self.name, self.folder, config)

    @property
    def paid(self) -> Costs:
        """What the run file lacks: seconds of lost machines, and the paid time of rented ones until
        now; the last lives no longer than its limit."""
        life = self.machine.life if self.machine and self.rented_since else 0
        rented = self.rented_before + min(life, time.time() - self.rented_since)
        return Costs(lost_seconds=self.lost_seconds, rented_seconds=round(rented, 3))

    def with_rent_until_now(self, *, rented_since: float = 0.0, **changed: Any) -> "JobRecord":
        """After the end of the rented machine, if there was one, or the start of another."""
        before = self.paid.rented_seconds
        return msgspec.structs.replace(
            self, rented_before=before, rented_since=rented_since, **changed
        )

    def save(self) -> None:
        replace_file(self.place / "job.json", msgspec.json.format(msgspec.json.encode(self)))


_DECODER = msgspec.json.Decoder(JobRecord)


def home() -> Path:
    """The folder of all jobs, outside any repository."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "flashbench" / "cloud"


def _all() -> Iterator[JobRecord]:
    """All records but damaged ones, which are no reason to stop."""
    for path in home().glob("*/job.json"):
        with contextlib.suppress(InvalidInputError):
            if one := read(path.parent.name):
                yield one


def measured_on(ssh: str) -> tuple[str, str]:
    """Device and its name in the last results of a machine reached by ssh; empty if unknown."""
    found = [one for one in _all() if one.ssh == ssh and one.measured_on[0]]
    last = max(found, key=lambda one: one.created, default=None)
    return last.measured_on if last else ("", "")


def paid_seconds(run_files: Sequence[Path]) -> float:
    """Seconds for which machines were rented for these run files, so far."""
    names = set(map(str, run_files))
    return sum(one.paid.rented_seconds for one in _all() if one.run_file in names)


def paid_for(run_file: Path) -> Costs:
    """What lost machines spent on a run file whose results were never downloaded."""
    if run_file.exists():  # and has it
        return Costs()
    of_it = [one for one in _all() if one.run_file == str(run_file) and one.code is None]
    return total_costs([Costs(), *(one.paid for one in of_it)])


def remembered(asked: Sequence[str], lines: Sequence[str]) -> list[str]:
    """These lines, or those stored when `asked` was first asked: the shards of a command, by which
    it finds its jobs again."""
    name = hashlib.sha256("\0".join(asked).encode(errors="surrogateescape")).hexdigest()[:10]
    file = made_home() / f"shards-{name}"
    if not file.exists():
        replace_file(file, "\n".join(lines).encode())
    return file.read_text().split()


def made_home() -> Path:
    """The folder, made if need be. InvalidInputError if that fails."""
    try:
        home().mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise InvalidInputError(
            f"{home()}: cannot be created ({error.strerror}); jobs are remembered there: set "
            "XDG_STATE_HOME to a folder of yours"
        ) from None
    return home()


def read(name: str) -> JobRecord | None:
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
