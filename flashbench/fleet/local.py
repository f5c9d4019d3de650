"""Several devices of one machine: one process tree each, side by side, nothing lost."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

from flashbench.end_with_parent import TASK_OF
from flashbench.errors import Exit, FlashbenchError
from flashbench.fleet.merge import total_costs
from flashbench.fleet.parts import Parts, budget_flag, over_budget, share
from flashbench.measuring.plan import Plan
from flashbench.run_plan import RunEnd, signals_as_interrupt, signals_ignored
from flashbench.runfile import Costs, RunFile
from flashbench.shard import Shard, deal
from flashbench.streams import Tell

# After SIGTERM a task ends its worker and saves; a hanging task is killed: its last save counts.
_GRACE_SECONDS = 60.0


@dataclass(frozen=True)
class Slot:
    """A place to measure: its name in messages, and the environment that makes a task use it. via:
    the command of flashbench that runs another one there, if it is another machine. again: that
    command after these parts, within the limits of all; None if they leave nothing."""

    name: str
    environment: Mapping[str, str]
    via: Sequence[str] = ()
    again: Callable[[Sequence[Path]], Sequence[str] | None] | None = None

    def via_after(self, done: Sequence[Path]) -> Sequence[str] | None:
        """The command for another part. done: the parts that it measured."""
        return self.again(done) if self.again else self.via


@dataclass
class Ended:
    """How the tasks ended: the exit status of each (negative: a signal), its last words, and the
    times when it began and ended (seconds since 1970)."""

    codes: list[int] = field(default_factory=list)
    last_lines: list[str] = field(default_factory=list)
    times: list[tuple[float, float]] = field(default_factory=list)
    interrupted: bool = False

    def how(self, place: int) -> str:
        """How one task ended, in words."""
        code, line = self.codes[place], self.last_lines[place]
        if code < 0:
            return f"killed by {signal.Signals(-code).name}"
        return line or f"exit status {code}"


def measure_on_slots(
    plan: Plan,
    path: Path,
    slots: Sequence[Slot],
    flags: Sequence[str],
    tell: Tell,
    resumed: RunFile | None = None,
    shards: Sequence[Shard] = (),
    paid_there: Callable[[Path], Costs] = lambda part: Costs(),
) -> RunEnd:
    """Measure a plan into the run file `path`, a part of the cases on each slot.

    flags: the plan, as flags of `flashbench run`. resumed: the run to resume. shards: of each slot,
    if a planner assigned the cases. paid_there: what other machines spent on a part of which
    nothing was downloaded. Whatever happens to a slot, all its and the others' measurements are
    in the file. Raises FlashbenchError with the first slot's message if nothing
    could be measured anywhere.
    """
    parts = Parts(path, len(slots), shards, found_again=any(slot.via for slot in slots))
    indices = parts.pending(plan, resumed)
    parts.begin(plan, resumed)
    budgeted = [*flags, *budget_flag(plan.budget_seconds, len(indices))]
    # A machine keeps its part, whose job may run there already.
    used = [slots[index - 1 if parts.found_again else n] for n, index in enumerate(indices)]
    tasks = zip(used, indices, strict=True)
    ended = run_on_slots([(s, parts.task(index, budgeted, s.via)) for s, index in tasks], tell)
    run, wrong = parts.merge(plan)
    lost = {
        index: used[place]
        for place, index in enumerate(indices)
        if index in wrong and ended.codes[place] != Exit.USAGE
    }
    paid = total_costs([Costs(), *(paid_there(parts.path(index)) for index in lost)])
    for place, index in enumerate(indices):
        if ended.codes[place] < 0:  # killed before it could account for all
            paid.lost_seconds += parts.unsaved(index, *ended.times[place])
    whole = zip(used, indices, strict=True)
    takers = [(slot, [parts.path(index)]) for slot, index in whole if index not in wrong]
    if lost and takers and not ended.interrupted:
        share_of_each = share(plan.budget_seconds, len(indices))
        ended.interrupted = _hand_over(parts, lost, takers, flags, share_of_each, tell)
        run, wrong = parts.merge(plan)
    if run is not None and (paid.lost_seconds or paid.rented_seconds):
        run.costs.lost_seconds += paid.lost_seconds
        run.costs.rented_seconds += paid.rented_seconds
        parts.save(run)
    if run is not None or ended.interrupted:
        for place, index in enumerate(indices):
            if index in wrong and not ended.interrupted:
                tell(f"warning: {used[place].name}: {wrong[index]}: {ended.how(place)}")
        parts.end()
        return RunEnd(run, ended.interrupted, run is not None and over_budget(run), bool(wrong))
    parts.end()
    code = ended.codes[0]
    raise FlashbenchError(
        f"{used[0].name}: {ended.how(0)}", Exit.USAGE if code == Exit.USAGE else Exit.NOT_MEASURED
    )


def _hand_over(
    parts: Parts,
    lost: Mapping[int, Slot],
    takers: Sequence[tuple[Slot, list[Path]]],
    flags: Sequence[str],
    budget: float | None,
    tell: Tell,
) -> bool:
    """Resume each lost part once on a slot that finished its own; whether that was interrupted.

    takers: these, with the parts that each measured. budget: device seconds per part, including
    those already spent.
    """
    for batch in deal(list(lost), takers):
        tasks = []
        for (slot, done), index in batch:
            if budget is not None and parts.spent(index) >= budget:
                continue
            if (via := slot.via_after(done)) is None:
                tell(f"{lost[index].name} was lost; the limits leave nothing for its cases")
                continue
            done.append(parts.path(index))
            left = [] if budget is None else budget_flag(budget - parts.spent(index), 1)
            tell(f"{lost[index].name} was lost; {slot.name} takes its cases")
            tasks.append((slot, parts.task(index, [*flags, *left], via)))
        if tasks and run_on_slots(tasks, tell).interrupted:
            return True
    return False


def run_on_slots(tasks: Sequence[tuple[Slot, Sequence[str]]], tell: Tell) -> Ended:
    """Run one command per slot until all have ended; prints their lines with the slot's name.

    Ctrl-C and SIGTERM are passed on as SIGTERM, and all are waited for: they save what they have.
    """
    ended = Ended()
    running: list[_Task] = []
    try:
        with signals_as_interrupt():
            for slot, command in tasks:
                running.append(_Task(slot, command, tell))
            for task in running:
                task.process.wait()
    except KeyboardInterrupt:
        ended.interrupted = True
    finally:
        with signals_ignored():
            for task in running:
                task.process.terminate()
            for task in running:
                task.end()
    ended.codes = [task.process.returncode for task in running]
    ended.last_lines = [task.last_line for task in running]
    ended.times = [(task.began, task.ended) for task in running]
    return ended


class _Task:
    def __init__(self, slot: Slot, command: Sequence[str], tell: Tell) -> None:
        self.last_line = ""
        self.began = self.ended = time.time()
        self._slot, self._tell = slot, tell
        self.process = subprocess.Popen(
            command,
            env={**os.environ, **slot.environment, TASK_OF: str(os.getpid())},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # Ctrl-C in the terminal is for us to pass on
        )
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def end(self) -> None:
        """Wait for a terminated task; kill it if it does not end."""
        try:
            self.process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self._reader.join(_GRACE_SECONDS)

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            for line in lines:
                text = line.strip().removeprefix("flashbench: ")
                if text:
                    self.last_line = text
                    self._tell(f"{self._slot.name}: {text}")
        self.ended = time.time()
