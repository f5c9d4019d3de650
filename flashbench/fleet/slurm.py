"""A run as one Slurm job array, submitted by submitit: one task per shard.

submitit pickles each task into a folder and unpickles it there: the folder is private to one user.
Tasks run `subprocess.call` of a command line; results and states are read from run files, Slurm and
logs, never from a pickle.
"""

import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from flashbench.errors import InvalidInputError, NotMeasuredError
from flashbench.fleet.parts import Parts, budget_flag, over_budget
from flashbench.measuring.plan import Plan
from flashbench.run_plan import RunEnd, signals_as_interrupt
from flashbench.runfile import RunFile
from flashbench.streams import Tell

# Slurm signals a task this long before its time is up; it needs seconds to save.
_SIGNAL = "TERM@30"
_ENDED = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
    "PREEMPTED", "REVOKED", "SPECIAL_EXIT", "TIMEOUT",
}  # fmt: skip
_NODE_LOST = ("BOOT_FAIL", "NODE_FAIL", "PREEMPTED", "REVOKED")
_FIRST_POLL_SECONDS, _LONGEST_POLL_SECONDS = 1.0, 15.0
_OPTION = re.compile(r"[a-z][a-z-]*")


@dataclass(frozen=True)
class SlurmRequest:
    """What to request from Slurm per task: minutes, and sbatch options by long name."""

    minutes: int
    partition: str | None = None
    gres: str | None = None
    exclusive: bool = False  # on the CPU: other jobs on the node disturb the measurement
    options: tuple[tuple[str, str | bool], ...] = ()  # True: an option without a value

    def __post_init__(self) -> None:
        texts = [self.partition or "", self.gres or "", *(str(value) for _, value in self.options)]
        names = [name for name, _ in self.options]
        if not all(map(_OPTION.fullmatch, names)) or not all(map(_one_line, texts)):
            raise InvalidInputError(
                "--slurm: write options of sbatch by their long names on one line, as in "
                "--slurm-option cpus-per-task=8 --slurm-option requeue"
            )

    @property
    def parameters(self) -> dict[str, Any]:
        """For submitit. Lets a step use all the job's resources: srun would bind to CPUs
        otherwise."""
        return {
            "job_name": "flashbench",
            "time": self.minutes,
            "partition": self.partition,
            "gres": self.gres,
            "exclusive": self.exclusive or None,
            "wckey": None,
            "stderr_to_stdout": True,
            "srun_args": ["--cpu-bind=none"],
            "additional_parameters": {"signal": _SIGNAL, **dict(self.options)},
        }


@dataclass(frozen=True)
class Cluster:
    """The job that measures `parts`. All Slurm files are in a folder beside them."""

    parts: Parts
    request: SlurmRequest
    tell: Tell

    @property
    def folder(self) -> Path:
        return self.parts.directory / "slurm"

    def script(self, tasks: int) -> str:
        """The script for sbatch and this many tasks, as submitit writes it."""
        slurm = _submitit()
        if "%" in str(self.folder) or not _one_line(str(self.folder)):
            raise InvalidInputError(
                f"{self.folder}: Slurm would read the % in it; name another file with -o"
            )
        command = f"{shlex.quote(sys.executable)} -u -m submitit.core._submit "
        text = slurm._make_sbatch_string(
            command=command + shlex.quote(str(self.folder)),
            folder=self.folder,
            map_count=tasks if tasks > 1 else None,
            **self.request.parameters,
        )
        return str(text)

    def submit(self, commands: Sequence[Sequence[str]]) -> str:
        """Submit the job and return its ID. NotMeasuredError has sbatch's message."""
        slurm = _submitit()
        if not (shutil.which("sbatch") and shutil.which("srun")):
            raise NotMeasuredError(
                "--slurm: no sbatch here; run this on a machine of the cluster (--dry-run shows "
                "the job anywhere)"
            )
        old = self.folder.exists()  # with the logs of an earlier job
        self.folder.mkdir(mode=0o700, exist_ok=True)
        executor = slurm.SlurmExecutor(self.folder)
        executor.update_parameters(**self.request.parameters)
        try:
            jobs = executor.submit_array([partial(subprocess.call, list(c)) for c in commands])
        except Exception as error:  # submitit has several for sbatch's messages
            if not old:
                shutil.rmtree(self.folder)
            words = " ".join(str(error).split())
            raise NotMeasuredError(f"--slurm: the job was refused: {words[-400:]}") from None
        return str(jobs[0].job_id).partition("_")[0]

    def wait(self, job: str, shards: Sequence[int]) -> dict[int, str]:
        """Wait until all tasks have ended, printing their states; shard -> Slurm's last state.

        shards: the shard of each task of the array.
        """
        last: dict[int, str] = dict.fromkeys(shards, "never seen")
        interval = _FIRST_POLL_SECONDS
        while True:
            states = _states(job)
            if states is not None:
                for place, shard in enumerate(shards):
                    state = states.get(place)
                    if state is not None and state.words != last[shard]:
                        last[shard] = state.words
                        self.tell(f"shard {shard}/{self.parts.count}: {state.words}")
                if all(state.name in _ENDED for state in states.values()):
                    return last
            time.sleep(interval)
            interval = min(_LONGEST_POLL_SECONDS, interval * 1.2)

    def last_line(self, job: str, place: int, tasks: int) -> str:
        """The last line of a task's log, and where the rest is."""
        name = f"{job}_{place}" if tasks > 1 else job
        log = self.folder / f"{name}_0_log.out"
        try:
            lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        except OSError:
            return "no log"
        own = [line for line in lines if line.startswith("flashbench: ")]
        said = (own or lines or [""])[-1].removeprefix("flashbench: ")
        return f"{said[:300]} ({log})"


def measure_on_slurm(
    plan: Plan,
    cluster: Cluster,
    flags: Sequence[str],
    resumed: RunFile | None = None,
    *,
    dry_run: bool = False,
    wait: bool = True,
) -> RunEnd | None:
    """Measure a plan as a job array; None if it did not wait.

    dry_run: print the script to stdout and submit nothing. wait: otherwise the job ID goes to
    stdout. Ctrl-C and SIGTERM leave the job running and raise NotMeasuredError, which says how to
    cancel it and how to collect its parts.
    """
    parts, tell = cluster.parts, cluster.tell
    shards = parts.pending(plan, resumed)
    flags = [*flags, *budget_flag(plan.budget_seconds, len(shards))]
    commands = [parts.task(shard, flags) for shard in shards]
    script = cluster.script(len(shards)) if shards else ""
    for place, shard in enumerate(shards):
        tell(f"task {place}: {parts.typed(shard, flags, resumed is not None)}")
    if dry_run:
        print(script)
        return None
    for line in script.splitlines():
        tell(f"sbatch: {line}")
    parts.begin(plan, resumed)
    if not shards:
        run, _ = parts.merge(plan)
        parts.end()
        return RunEnd(run)
    try:
        job = cluster.submit(commands)
    except BaseException:
        parts.end()
        raise
    how = f"cancel it with `scancel {job}`, collect what it measures with `{parts.merge_command}`"
    tell(f"job {job} is sent: {how}")
    if not wait:
        print(job)
        return None
    where = {shard: (job, place, len(shards)) for place, shard in enumerate(shards)}
    states = _awaited(cluster, job, shards, how)
    run, wrong = parts.merge(plan)
    # Their nodes are gone, and Slurm requeues only on request: submit them once more, to any nodes.
    lost = [shard for shard in shards if shard in wrong and states[shard].startswith(_NODE_LOST)]
    if lost:
        job = cluster.submit([commands[shards.index(shard)] for shard in lost])
        tell(f"job {job} takes the cases of shards {', '.join(map(str, lost))}, which were lost")
        where |= {shard: (job, place, len(lost)) for place, shard in enumerate(lost)}
        states |= _awaited(cluster, job, lost, how)
        run, wrong = parts.merge(plan)
    for shard in shards:
        if shard in wrong:
            last = cluster.last_line(*where[shard])
            # Slurm's early SIGTERM lets a task end before the limit, so its state hides the reason.
            timely = last.startswith("interrupted") and states[shard].startswith("COMPLETED")
            hint = "its time was up, give more --slurm-time; " if timely else ""
            tell(
                f"warning: shard {shard}/{parts.count}: {wrong[shard]}: Slurm says "
                f"{states[shard]}; {hint}{last}"
            )
    if run is None:
        parts.end()
        raise NotMeasuredError(f"no task of job {job} measured anything")
    if not wrong:
        shutil.rmtree(cluster.folder)
    parts.end()
    return RunEnd(run, False, over_budget(run), bool(wrong))


def _awaited(cluster: Cluster, job: str, shards: Sequence[int], how: str) -> dict[int, str]:
    """The last state of each shard. NotMeasuredError after Ctrl-C, which leaves the job."""
    try:
        with signals_as_interrupt():
            return cluster.wait(job, shards)
    except KeyboardInterrupt:
        raise NotMeasuredError(f"interrupted; job {job} keeps running: {how}") from None


@dataclass(frozen=True)
class _State:
    name: str
    words: str


def _states(job: str) -> dict[int, _State] | None:
    """Index in the array -> state; {} if Slurm has forgotten the job; None if unknown.

    squeue lists ended jobs for some minutes; nothing here needs Slurm's accounting.
    """
    query = ["squeue", "--noheader", "--array", "--states=all", "--format=%K|%T|%r|%N"]
    try:
        done = subprocess.run([*query, f"--jobs={job}"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode:
        return {} if "Invalid job id" in done.stderr else None
    found = {}
    for line in done.stdout.splitlines():
        place, name, reason, node = [part.strip() for part in line.split("|", 3)]
        more = node if reason in ("None", "") else reason
        index = int(place) if place.isdecimal() else 0  # a job of one task is not an array
        found[index] = _State(name, f"{name} ({more})" if more else name)
    return found


def _one_line(text: str) -> bool:
    return text.isprintable()


def _submitit() -> Any:
    try:
        from submitit.slurm import slurm
    except ImportError:
        raise InvalidInputError("--slurm needs submitit: pip install 'flashbench[slurm]'") from None
    return slurm
