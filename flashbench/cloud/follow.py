"""Wait for a remote job and download its results."""

import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from flashbench.cloud.job_record import JobRecord
from flashbench.cloud.remote import ConnectionLostError, JobStatus, Remote
from flashbench.cost.learn import learn
from flashbench.cost.spent import Spent
from flashbench.errors import Exit, InvalidInputError, NotMeasuredError
from flashbench.fleet.merge import lost
from flashbench.machine import identify
from flashbench.profile import model as profiles
from flashbench.profile.model import is_profile
from flashbench.runfile import Costs, RunFile, read, save
from flashbench.streams import Tell

_FIRST_POLL, _LONGEST_POLL = 0.5, 15.0
_PULL_SECONDS = 60.0
_DEAD_POLLS = 3
_HEAD = b'{"format":"flashbench-run"'  # of every run file


@dataclass
class Follower:
    """Waits for a job. patience: seconds without a connection before giving up. pull: a folder for
    intermediate results of a machine that may be reclaimed."""

    remote: Remote
    tell: Tell
    patience: float
    pull: Path | None = None
    measured: int = 0  # seconds that the job was last seen to have measured

    def wait(self) -> JobStatus:
        """Wait until the job has ended. Raises ConnectionLostError after `patience`,
        NotMeasuredError if the job does not exist or died."""
        last, dead = "", 0
        gone: float | None = None
        poll, pulled = _FIRST_POLL, time.monotonic()
        while True:
            try:
                status = self.remote.status()
                if self.pull and time.monotonic() - pulled > _PULL_SECONDS:
                    self.remote.fetch(self.pull)
                    pulled = time.monotonic()
            except ConnectionLostError as error:
                now = time.monotonic()
                if gone is None:
                    gone = now
                    self.tell(f"{error}; the job keeps running, trying again")
                if now - gone > self.patience:
                    raise
            else:
                if gone is not None:
                    self.tell("connected again")
                gone = None
                if status is None:
                    raise NotMeasuredError(f"{self.remote.host}: the job is not there")
                if status.ended is not None:
                    return status
                if status.running:
                    self.measured = status.measured
                if status.last != last:
                    last = status.last
                    self.tell(f"{self.remote.host}: {last}")
                dead = 0 if status.running else dead + 1
                if dead > _DEAD_POLLS:
                    raise NotMeasuredError(
                        f"{self.remote.host}: the job died: {last}; the same `cloud run` resumes it"
                    )
            time.sleep(poll)
            poll = min(_LONGEST_POLL, poll * 1.2)


def bring_home(record: JobRecord, status: JobStatus, tell: Tell) -> tuple[int, tuple[str, str]]:
    """Move the downloaded run file to its requested path; returns the job's exit code and where it
    measured: device and its name."""
    assert status.ended is not None
    code, why = status.ended
    where = "", ""
    if record.result:
        fetched = record.place / "results" / record.result
        there = fetched.is_file()
        where = take_home(fetched, Path(record.run_file), tell, record.paid)
        if there and not fetched.is_file():
            code, why = Exit.NOT_MEASURED, why or "the run file is damaged there"
    if why:
        tell(f"{record.remote.host}: {why}")
    return code if code in list(Exit) else Exit.NOT_MEASURED, where


def take_home(fetched: Path, target: Path, tell: Tell, paid: Costs) -> tuple[str, str]:
    """Move a run file to its requested path, unless the file there has results that it lacks, and
    learn from it what such a machine takes; returns its device and the device's name. A damaged
    file is set aside, here or there. paid: what the file lacks of the costs."""
    if is_profile(fetched):
        return _take_profile_home(fetched, target, tell, paid)
    run = intact(fetched, tell) if fetched.is_file() else None
    if run is None:
        tell(f"warning: no run file came back; what was said is in {fetched.parent}")
        return "", ""
    device = run.cases[0].device if run.cases else ""
    where = device, identify(run.environment, device)[0] if device else ""
    before = intact(target, tell) if target.exists() else None
    if before is not None and lost(before, run):
        tell(f"warning: {target} has other results, and stays; those of the job: {fetched}")
        return where
    learn(run, before={launch.index for launch in before.launches} if before else ())
    run.costs.lost_seconds += paid.lost_seconds
    run.costs.rented_seconds += paid.rented_seconds
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        save(run, target)
    except OSError as error:
        tell(f"warning: {target}: cannot be written: {error.strerror}; the run file is {fetched}")
        return where
    tell(f"{target}: {len(run.launches)} launches; {Spent.of(run).line}")
    return where


def _take_profile_home(fetched: Path, target: Path, tell: Tell, paid: Costs) -> tuple[str, str]:
    """A profile, with its picture and raw reports beside it; one at home stays."""
    if target.exists():
        tell(f"warning: {target} exists, and stays; that of the job: {fetched}")
        return "", ""
    found = profiles.read(fetched)
    found.rented_seconds += paid.rented_seconds
    beside = {fetched.with_suffix(".svg"): target.with_suffix(".svg")}
    for one in found.subjects:
        if one.report:
            report = fetched.with_name(Path(one.report).name)
            one.report = f"{target.stem}{report.name.removeprefix(fetched.stem)}"
            beside[report] = target.with_name(one.report)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for there, here in beside.items():
            if there.is_file():
                shutil.copyfile(there, here)
        profiles.save(found, target)
    except OSError as error:
        tell(f"warning: {target}: cannot be written: {error.strerror}; the profile is {fetched}")
    else:
        tell(f"{target}: {found.spent.line}")
    return found.case.device, identify(found.environment, found.case.device)[0]


def intact(path: Path, tell: Tell) -> RunFile | None:
    """A run file; None if it is damaged, as by a copy that was cut short. It is then set aside,
    because every later try would fail at it. Raises InvalidInputError for other files."""
    try:
        return read(path)
    except InvalidInputError as error:
        if not path.is_file() or path.read_bytes()[: len(_HEAD)] not in (_HEAD, b""):
            raise
        aside = path.with_name(f"{path.name}.damaged")
        count = 1
        while os.path.lexists(aside):
            count += 1
            aside = path.with_name(f"{path.name}.damaged-{count}")
        path.rename(aside)
        tell(f"warning: {error}; it is now {aside}")
        return None
