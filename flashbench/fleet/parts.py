"""The parts of a run in progress: a private directory beside the run file they merge into."""

import os
import shlex
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flashbench import own_python
from flashbench.errors import InvalidInputError
from flashbench.files import remove_leftovers
from flashbench.fleet.merge import merge, split
from flashbench.measuring.claim import lock_of
from flashbench.measuring.plan import Plan
from flashbench.measuring.remaining import unfinished_launches
from flashbench.runfile import RunFile, read, save
from flashbench.shard import Shard, equal_shards

_BOOTSTRAP = "sys.argv[0] = 'flashbench'; from flashbench.cli import main; main()"


@dataclass(frozen=True)
class Parts:
    """The `count` parts that are merged into `output`. Indices begin at 1, like shards.
    found_again: whether tasks resume the parts of an earlier call."""

    output: Path
    count: int
    shards: Sequence[Shard] = ()  # as a planner assigned the cases; else all are alike
    found_again: bool = False

    def shard(self, index: int) -> Shard:
        return (self.shards or equal_shards(self.count))[index - 1]

    @property
    def directory(self) -> Path:
        output = self.output.absolute()
        return output.with_name(f"{output.name}.parts")

    def path(self, index: int) -> Path:
        return self.directory / f"part-{index}-of-{self.count}.json"

    @property
    def merge_command(self) -> str:
        """The command that collects the parts by hand."""
        parts = f"{shlex.quote(str(self.directory))}/part-*.json"
        return f"flashbench merge {parts} -o {shlex.quote(str(self.output))}"

    def pending(self, plan: Plan, resumed: RunFile | None) -> list[int]:
        """The parts to measure: in a resumed run, the unfinished ones."""
        if resumed is None:
            return list(range(1, self.count + 1))
        known = self._known(plan, resumed)
        return [index for index, part in enumerate(known, 1) if unfinished_launches(part)]

    def begin(self, plan: Plan, resumed: RunFile | None) -> None:
        """Create the directory, private to its owner, and split a resumed run into it.

        Raises InvalidInputError if parts of another run are still there.
        """
        self._make_directory()
        if resumed is None:
            return
        budget = share(plan.budget_seconds, len(self.pending(plan, resumed)))
        for index, part in enumerate(self._known(plan, resumed), 1):
            part.settings.timeout_seconds = plan.timeout_seconds
            part.settings.budget_seconds = budget
            part.hourly_rate = plan.hourly_rate
            part.costs.currency, part.costs.price = plan.currency, plan.price
            save(part, self.path(index))

    def _known(self, plan: Plan, resumed: RunFile) -> list[RunFile]:
        known = split(resumed, self.shards or equal_shards(self.count))
        for part in known:
            part.settings.plan_launches(plan.launches)
        return known

    def task(self, index: int, flags: Sequence[str], via: Sequence[str] = ()) -> list[str]:
        """The command that measures a part, or resumes the part's file. via: as in a slot."""
        run = self._arguments(index, flags)
        arguments = [*via, "--", *run] if via else [*run, "--child"]
        return own_python.command(_BOOTSTRAP, *arguments)

    def typed(self, index: int, flags: Sequence[str], resumed: bool) -> str:
        """The command of a task, as typed by hand."""
        resume = ["run", "--resume", str(self.path(index))]
        return shlex.join(["flashbench", *(resume if resumed else self._arguments(index, flags))])

    def _arguments(self, index: int, flags: Sequence[str]) -> list[str]:
        shard = ["--shard", str(self.shard(index))]
        return ["run", *flags, *shard, "-o", str(self.path(index))]

    def merge(self, plan: Plan) -> tuple[RunFile | None, dict[int, str]]:
        """Merge the existing parts; also returns what is wrong with which: index -> message.

        A part stopped by `--budget` is fine. None if there is no part at all.
        """
        there: list[tuple[str, RunFile]] = []
        wrong: dict[int, str] = {}
        for index in range(1, self.count + 1):
            path = self.path(index)
            if not path.exists():
                wrong[index] = "nothing was measured"
                continue
            there.append((str(path), run := read(path)))
            if (left := unfinished_launches(run)) and not over_budget(run):
                wrong[index] = f"{left} of {run.settings.launches} launches are unfinished"
        if not there:
            return None, wrong
        try:
            merged = merge(there)
            merged.command = list(plan.command) or there[0][1].command
            merged.settings.budget_seconds = plan.budget_seconds
        except InvalidInputError as error:
            raise InvalidInputError(f"{error}; the parts are kept in {self.directory}") from None
        self.save(merged)
        return merged, wrong

    def save(self, merged: RunFile) -> None:
        """Write the merged run file. InvalidInputError if that fails."""
        try:
            save(merged, self.output)
        except OSError as error:
            raise InvalidInputError(
                f"{self.output}: cannot be written: {error.strerror}; the parts are kept: "
                f"{self.merge_command}"
            ) from None

    def unsaved(self, index: int, began: float, ended: float) -> float:
        """Seconds of a task since its part was last saved, or since it began."""
        path = self.path(index)
        return max(0.0, ended - max(began, path.stat().st_mtime if path.exists() else began))

    def spent(self, index: int) -> float:
        """Device seconds of a part so far."""
        path = self.path(index)
        return read(path).device_seconds if path.exists() else 0.0

    def end(self) -> None:
        """Remove the parts, which are now in the output. Other files (logs) keep the directory."""
        for index in range(1, self.count + 1):
            self.path(index).unlink(missing_ok=True)
            lock_of(self.path(index)).unlink(missing_ok=True)  # of a killed task
            remove_leftovers(self.path(index))
        if not any(self.directory.iterdir()):
            self.directory.rmdir()

    def _make_directory(self) -> None:
        """Create a directory that only this user can write: Slurm tasks unpickle its contents."""
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = self.directory.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
                raise InvalidInputError(
                    f"{self.directory} belongs to another user; name another file with -o"
                )
            self.directory.chmod(0o700)
        except OSError as error:
            raise InvalidInputError(
                f"{self.directory}: cannot be created ({error.strerror}); name another file with -o"
            ) from None
        if not self.found_again and next(self.directory.glob("part-*.json"), None):
            raise InvalidInputError(
                f"{self.directory} holds parts of an earlier run: join them with "
                f"`{self.merge_command}`, then remove the directory"
            )


def share(budget: float | None, count: int) -> float | None:
    """The part of a budget of device seconds that each of `count` devices may spend."""
    return None if budget is None else budget / max(count, 1)


def over_budget(run: RunFile) -> bool:
    """Whether --budget ended it."""
    return any(r.status == "over_budget" for launch in run.launches for r in launch.results)


def budget_flag(budget: float | None, count: int) -> list[str]:
    """The budget flag for each of `count` tasks."""
    part = share(budget, count)
    return [] if part is None else [f"--budget={part:.6f}s"]
