"""The life of a job, from packing to results: started once, found again by the same command."""

import contextlib
import hashlib
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from flashbench.cloud import job_record as records
from flashbench.cloud import sky
from flashbench.cloud.follow import Follower, bring_home, intact, take_home
from flashbench.cloud.job import Limits, RemoteJob
from flashbench.cloud.job_record import JobRecord
from flashbench.cloud.remote import ConnectionLostError, JobStatus
from flashbench.errors import Exit, InvalidInputError, NotMeasuredError
from flashbench.files import remove_tree, replace_file
from flashbench.profile.model import is_profile
from flashbench.runfile import read
from flashbench.streams import Tell

# Seconds without a connection after which a machine whose job must have ended is unreachable.
_OUT_OF_REACH_SECONDS = 600.0


@dataclass
class Order:
    """A job and where it runs. begun: whether an earlier command started it."""

    record: JobRecord
    begun: bool
    tell: Tell

    @property
    def payload(self) -> Path:
        return self.record.place / "payload"

    @property
    def results(self) -> Path:
        return self.record.place / "results"

    @property
    def earlier(self) -> Path:
        return self.payload / "earlier"

    @property
    def is_kept(self) -> bool:
        """Whether the job was started, now or by an earlier command."""
        return (self.record.place / "job.json").exists()

    def begin(self) -> None:
        """Start the job, on a rented machine or by ssh. An existing job continues unchanged."""
        machine = self.record.machine
        if machine is not None:
            self.record = self.record.with_rent_until_now(rented_since=time.time())
        self.record.save()  # first: a kill in between must not hide a machine that costs
        if machine is None:
            self.record.remote.send(self.payload)
            self.record.remote.start()
            return
        if self.begun:
            machine = replace(machine, life=min(machine.life, self.left))
            self.send_earlier()
        first, self.begun = not self.begun, True
        for task in self.write_tasks(machine):
            try:
                sky.call(sky.launch(machine.name, task))
            except BaseException:
                # SkyPilot keeps a machine that failed half way, for inspection.
                self.tell(f"removing {machine.name}, which did not start")
                if first:  # of a later machine the results so far are kept, for another try
                    (self.record.place / "job.json").unlink()
                sky.call(sky.down(machine.name), quiet=True)
                self.record = self.record.with_rent_until_now()
                if not first:
                    self.record.save()
                raise

    def discard(self) -> None:
        """Forget a job that was only prepared, but not the results of an earlier try."""
        remove_tree(self.payload)
        for task in self.record.place.glob("*.yaml"):
            task.unlink()
        with contextlib.suppress(OSError):  # there are results
            self.record.place.rmdir()

    def send_earlier(self) -> None:
        """Add the run files downloaded so far to the payload, to be resumed."""
        for file in self.results.glob("*.json"):
            if not is_profile(file) and intact(file, self.tell) is not None:
                shutil.copy(file, self.earlier / file.name)

    def answers(self) -> bool:
        """Whether the job can be reached. Restarts a rented machine that stopped after the job."""
        machine, remote = self.record.machine, self.record.remote
        try:
            return remote.status() is not None
        except ConnectionLostError:
            if machine is None or machine.down:
                return False
        try:
            sky.call(sky.start(machine.name), quiet=True)
            return remote.status() is not None
        except NotMeasuredError:
            return False

    @property
    def left(self) -> int:
        """Seconds left of the limit."""
        return int(self.record.created + self.record.seconds - time.time())

    def write_tasks(self, machine: sky.Rental) -> list[Path]:
        """Write the tasks for SkyPilot: the one that arms the machine, and the job."""
        machine.limits.write(self.payload)
        found = []
        for name, task in (("armed", machine.armed()), ("task", machine.task(self.payload))):
            path = self.record.place / f"{name}.yaml"
            replace_file(path, sky.to_yaml(task).encode())
            found.append(path)
        return found

    def finish(self) -> int:
        """Wait for the job, download its results, end its machine; returns the job's exit code."""
        try:
            status = self._wait()
        except NotMeasuredError:
            self.deliver()
            raise
        record, machine = self.record, self.record.machine
        if machine is None:  # it is back, with all its results
            record = msgspec.structs.replace(record, lost_seconds=0.0)
        record.remote.fetch(self.results)
        try:
            if machine is not None:
                sky.call(sky.down(machine.name), quiet=True)
                self.tell(f"{machine.name} is removed")
        finally:  # deliver what was downloaded, with the cost so far
            code, where = bring_home(record, status, self.tell)
            self.record = record.with_rent_until_now(code=code, measured_on=where)
            self.record.save()
        if machine is None:
            try:
                record.remote.remove()
            except NotMeasuredError as error:  # the results are here
                self.tell(f"warning: the job's folder stays there: {error}")
        remove_tree(self.payload)
        return code

    def _wait(self) -> JobStatus:
        """Wait for the job's end, on one spot machine after another."""
        record, machine = self.record, self.record.machine
        spot = machine is not None and machine.spot
        replaceable = spot or record.part
        while True:
            patience = max(self.left + _OUT_OF_REACH_SECONDS, record.lost_after)
            follower = Follower(
                record.remote,
                self.tell,
                record.lost_after if replaceable else patience,
                self.results if replaceable else None,
            )
            try:
                return follower.wait()
            except NotMeasuredError as error:
                if replaceable:
                    self._count_lost(follower.measured)
                if not isinstance(error, ConnectionLostError):
                    raise
                try:
                    if not spot:
                        raise
                    self._again()
                except NotMeasuredError as why:
                    self.tell(str(error))
                    raise NotMeasuredError(f"{why}; {self.where()}") from None

    def _count_lost(self, measured: float) -> None:
        """Count what a lost machine spent since its last results. measured: its seconds."""
        name = self.record.result
        came, begun_with = (_spent(place / name) for place in (self.results, self.earlier))
        lost = self.record.lost_seconds + max(0.0, measured - max(0.0, came - begun_with))
        self.record = msgspec.structs.replace(self.record, lost_seconds=lost)
        self.record.save()

    def _again(self) -> None:
        """Resume on another spot machine, from the results so far, within the time left."""
        left = self.left
        if left < sky.SHORTEST_LIFE:
            raise NotMeasuredError(
                f"the spot machine is gone, and {left} s are too few for another"
            )
        self.tell(f"the spot machine is gone; continuing on another, for at most {left} s")
        self.begin()

    def deliver(self) -> None:
        """Take the run file of a job that did not end to its requested path, as far as it came
        home."""
        fetched = self.results / self.record.result
        if not self.record.result or not fetched.is_file():
            return
        try:
            take_home(fetched, Path(self.record.run_file), self.tell, self.record.paid)
        except InvalidInputError as error:
            self.tell(f"warning: {error}")

    def where(self) -> str:
        """Where the results of an unreachable machine may be, and how to resume."""
        machine, name, place = self.record.machine, self.record.name, self.record.place
        came = f"what came home is in {self.results}; " if any(self.results.glob("*")) else ""
        if machine is None:
            return f"{came}its results, when it answers: flashbench cloud fetch {name}"
        if machine.bucket:
            came += f"what it kept is in {machine.bucket}/{name}; "
        elif not came:
            came = f"see `sky status`; its results, if it is there: flashbench cloud fetch {name}; "
        if self.left < sky.SHORTEST_LIFE:
            return f"{came}to measure again, with this run file: rm -r {place}"
        return f"{came}the same `cloud run` tries again"


def pack_order(job: RemoteJob, record: JobRecord, tell: Tell) -> Order:
    """Pack a job and name it by what it measures and where, so the same command is the same job.

    record: without its name. A job that was started before keeps its original record; one that
    ended without measuring is tried again, from what was downloaded of it.
    """
    staged = records.made_home() / f"new-{time.time_ns()}"
    try:
        machine = record.machine
        where = record.ssh or f"{machine and (machine.gpu, machine.spot, machine.infra)}"
        content = "\0".join((job.pack(staged), where, record.run_file))
        name = f"flashbench-{hashlib.sha256(content.encode()).hexdigest()[:10]}"
        known = records.read(name)
        failed = known is not None and known.code == Exit.NOT_MEASURED
        if known is not None and not failed:  # another way there may be the one that works
            return Order(msgspec.structs.replace(known, config=record.config), True, tell)
        if record.result and not record.run_file:
            stem, mark = Path(record.result).stem, name.rpartition("-")[2]
            record = msgspec.structs.replace(
                record, run_file=str(Path(f"{stem}-{mark}.json").absolute())
            )
        record = msgspec.structs.replace(
            record,
            name=name,
            folder="sky_workdir" if machine else f"flashbench-cloud/{name}",
            machine=machine and replace(machine, name=name),
        )
        record.place.mkdir(mode=0o700, exist_ok=True)
        remove_tree(record.place / "payload")
        staged.rename(record.place / "payload")
    finally:
        remove_tree(staged)
    order = Order(record, False, tell)
    if known is not None:
        order.record = msgspec.structs.replace(
            order.record, lost_seconds=known.lost_seconds, rented_before=known.rented_before
        )
        tell(f"{name} ended without a measurement, and is tried again")
        order.send_earlier()
    if record.machine is None:
        Limits(int(record.seconds)).write(order.payload)
    return order


def _spent(file: Path) -> float:
    """The device seconds of a run file; 0 without one."""
    try:
        return read(file).device_seconds
    except InvalidInputError:
        return 0.0


def find(name: str, tell: Tell) -> Order | None:
    """The job with this name; None without one."""
    known = records.read(name)
    return None if known is None else Order(known, True, tell)
