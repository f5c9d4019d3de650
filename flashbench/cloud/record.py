"""The local record of a job: enough to find it again after a crash or shutdown here."""

import contextlib
import hashlib
import os
from collections.abc import Iterator, Sequence
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
    seconds without a connection after which such a machine, or a spot machine, counts as lost;
    lost_seconds: device seconds of lost machines that no result has."""

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


def _all() -> Iterator[Record]:
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


def lost_seconds(run_file: Path) -> float:
    """Device seconds that lost machines spent on a run file of which nothing came home."""
    if run_file.exists():  # and has them
        return 0.0
    of_it = [one for one in _all() if one.run_file == str(run_file) and one.code is None]
    return sum(one.lost_seconds for one in of_it)


def remembered(asked: Sequence[str], lines: Sequence[str]) -> list[str]:
    """These lines, or those of the first time that `asked` was asked: the shards of a command, by
    which it finds its jobs again."""
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
            f"{home()}: cannot be made ({error.strerror}); jobs are remembered there: set "
            "XDG_STATE_HOME to a folder of yours"
        ) from None
    return home()


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
