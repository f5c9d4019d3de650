"""The launches of a run: worker processes over a grid of cases, saved as they are measured."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from flashbench.case import Case
from flashbench.cost.spent import Spent, saved_seconds
from flashbench.errors import BudgetSpentError, NotMeasuredError, UnprovenError
from flashbench.fates import counted, fate
from flashbench.measuring.advice import advice
from flashbench.measuring.crew import Crew
from flashbench.measuring.device_seconds import DeviceSeconds, require_start
from flashbench.measuring.forks import Forks
from flashbench.measuring.plan import Plan, candidate_order
from flashbench.measuring.process import Worker, WorkerDiedError, how_to_install
from flashbench.measuring.progress import Progress
from flashbench.measuring.protocol import Audit, Audited, Done, Inspect, Inspection, Measure, Ready
from flashbench.measuring.remaining import Remaining, Settled
from flashbench.measuring.retries import Retries
from flashbench.measuring.run_document import forget_unfinished, started_run, unstarted_run
from flashbench.measuring.saving import Saving
from flashbench.measuring.time_left import TimeLeft
from flashbench.runfile import DeviceState, Launch, Result, ResultStatus, RunFile

_AUDIT_SECONDS = 5.0  # allowed beyond the budget; an audit takes 0.1 s


@dataclass
class Scheduler:
    """A run in progress: the launches of a plan, the current worker, the growing file.

    settled: called after each launch; cases that it returns leave the plan. check: compare machine
    and builds even if nothing is missing.
    """

    plan: Plan
    path: Path
    progress: Progress
    run: RunFile | None
    settled: Settled = lambda run: ()
    check: bool = False
    over_budget: bool = False
    _index: int = 0  # of the launch that the worker is for
    _worker: Worker | Crew | None = None
    _launch: Launch | None = None
    _broken: dict[str, str] = field(default_factory=dict)  # candidates that do not load
    _retries: Retries = field(default_factory=Retries)
    _state: DeviceState | None = None  # when the latest worker was ready
    _steps: int = 0
    _dirty: bool = False
    _start: float = 0.0  # seconds of the latest start of a worker, not yet counted to a launch
    _lost: float = 0.0  # and of starts that failed

    def __post_init__(self) -> None:
        self.saving = Saving(self.path)
        self._seconds = DeviceSeconds(self.plan.budget_seconds)
        self._remaining = Remaining(self.plan, self.settled)
        self._forks = Forks() if self.plan.workers == "forked" and Forks.possible else None
        self._resumed = self.run is not None

    def measure(self) -> None:
        """Measure, launch by launch, what the plan asks for and the file lacks."""
        if self.run is not None and not self._resume(self.run):
            return
        run = self._begin()
        launches = self._remaining.launches(run)
        self._steps = sum(len(self._remaining.cases(run, launch)) for launch in launches)
        time_left = TimeLeft(run, self.plan)
        for after, launch in zip(reversed(range(len(launches))), launches, strict=True):
            self._index = launch.index
            work = self._remaining.work(run, launch)
            time_left.launch(launch.index, *work, launch.device_seconds)
            self.progress.begin(self._steps, time_left.within(self._seconds.left()))
            self._measure_launch(run, launch, time_left)
            if self.over_budget:
                break
            self._steps -= self._settle(run) * after
            if self._remaining.nothing(run):
                break

    def discard(self) -> None:
        """Discard a process's measurements that lack proof: a launch of an existing file, or the
        whole file."""
        self._end_worker()
        if not self._resumed:
            self.run = None
            self.saving.remove()
        elif self.run is not None and self._launch is not None:
            self.run.launches.remove(self._launch)
            self.run.costs.lost_seconds += self._launch.device_seconds
            self._save()

    def close(self, interrupted: bool) -> None:
        """End the processes, record what was cut short, save."""
        self._end_worker()
        if self._forks is not None:
            self._forks.end()
        if self.run is None:
            return
        if interrupted and self._launch is None and self._resumed:
            self.run.costs.lost_seconds += self._seconds.of_no_launch
            self._dirty = True
        if interrupted and self._launch is not None and self._launch.results:
            self._record_rest("interrupted", "the run was interrupted before its turn")
        if self._dirty:
            self._save()

    # ---- launches

    def _resume(self, run: RunFile) -> bool:
        """Resume the file; False if it is complete."""
        forget_unfinished(run, self.plan)
        for launch in run.launches:
            for result in launch.results:
                self._retries.add(result)
        self._settle(run)
        left = self._remaining.launches(run)
        self._index = left[0].index if left else 0
        if left and not self._remaining.nothing(run):
            return True
        if self.check:
            self._start_first_worker()
        self.progress.note("nothing is missing in the file")
        if not self.saving.holds(run):  # with -o it is another file, which is promised
            self._save()
        return False

    def _begin(self) -> RunFile:
        """The new run, on the first worker's machine and builds."""
        self._start_first_worker()
        assert self.run is not None
        if not self._resumed:
            self._check_loaded()
        for line in advice(self.run, self._state, self.plan.launches):
            self.progress.note(line)
        return self.run

    def _settle(self, run: RunFile) -> int:
        """Take decided cases out of the plan; returns how many."""
        newly = self._remaining.settle(run)
        run.costs.saved_seconds = saved_seconds(run, self._remaining.settled)
        if newly:
            self._dirty = True
            self.progress.note(f"decided: {len(self._remaining.settled)} of {len(run.cases)} cases")
        return newly

    def _measure_launch(self, run: RunFile, launch: Launch, time_left: TimeLeft) -> None:
        self._launch = launch
        if all(known is not launch for known in run.launches):
            launch.started = datetime.now(UTC).isoformat(timespec="seconds")
            run.launches.append(launch)
        self._seconds.belong_to(launch)
        for place, (case, names) in enumerate(self._remaining.cases(run, launch).items()):
            self.progress.case(launch.index, case.id)
            self._measure_case(launch, case, names)
            if place == 0:  # save now rather than at the end of the launch
                self._audit()
            time_left.step(case, launch.device_seconds)
            self.progress.step(time_left.within(self._seconds.left()))
            if self.saving.due:
                self._save()
        self._audit()
        if not self.over_budget:
            self._inspect(launch)
            launch.complete = True
        self._end_worker()
        self._save()
        of = "" if self.plan.pair else f" of {self.plan.launches}"  # until decided
        self.progress.note(
            f"launch {launch.index + 1}{of}: "
            f"{counted(map(fate, launch.results))}, {launch.device_seconds:.1f} device seconds"
        )

    def _measure_case(self, launch: Launch, case: Case, names: list[str]) -> None:
        given_up = {name: self._retries.given_up(case.id, name) for name in names}
        self._record([result for result in given_up.values() if result])
        pending = [name for name in names if not given_up[name]]
        began = self._seconds.count()
        while pending:
            if broken := [name for name in pending if name in self._broken]:
                for name in broken:
                    self._record_all(case, [name], "error", self._broken[name])
                pending = [name for name in pending if name not in broken]
                continue
            left = self._seconds.left()
            if self._seconds.spent(self.run):
                self.over_budget = True
                self._record_all(
                    case, pending, "over_budget", "the budget was spent before its turn"
                )
                return
            try:
                if self._worker is None:
                    self._start_worker()
                    continue  # the broken candidates and the remaining budget may have changed
                self._count_start(launch)
                began = self._seconds.count()
                done = self._worker.ask(
                    Measure(
                        case=case,
                        candidates=candidate_order(pending, self.plan.seed, launch.index),
                        seed=launch.seed,
                        full_check=launch.index == 0,
                        seconds_left=left,
                    ),
                    left,
                )
            except WorkerDiedError as died:
                self._end_worker()
                launch.lost_seconds += self._seconds.count() - began
                if died.status == "over_budget":
                    self.over_budget = True
                    self._record_all(case, pending, died.status, str(died))
                    return
                if died.candidate not in pending:
                    self._record_all(case, pending, died.status, f"flashbench itself: {died}")
                    return
                self.progress.note(f"{died.candidate} on {case.id}: {died.status}: {died}")
                self._record_all(case, [died.candidate], died.status, str(died))
                pending.remove(died.candidate)
                continue
            except KeyboardInterrupt:
                launch.lost_seconds += self._seconds.count() - began
                raise
            assert isinstance(done, Done)
            launch.case_seconds[case.id] = round(self._seconds.count() - began, 6)
            launch.before = launch.before or self._state
            launch.after = done.state
            self._record(done.results)
            self.over_budget |= any(r.status == "over_budget" for r in done.results)
            return

    def _inspect(self, launch: Launch) -> None:
        """Measure memory and kernels, once and after all timing, because that changes the
        process."""
        assert self.run is not None
        if launch.index != 0:
            return
        for case in self.run.cases:
            results = {
                r.candidate: r for r in launch.results if r.case == case.id and r.status == "ok"
            }
            left = self._seconds.left()
            if not results or (left is not None and left <= 0):
                continue
            began = self._seconds.count()
            while results:
                request = Inspect(case=case, candidates=list(results), seed=launch.seed)
                try:
                    answer = (self._worker or self._start_worker()).ask(request, left)
                except WorkerDiedError as died:
                    self._end_worker()
                    who = died.candidate
                    self.progress.note(f"no memory or kernels: {who} on {case.id}: {died}")
                    if results.pop(who, None) is None or died.status == "over_budget":
                        break
                    continue
                assert isinstance(answer, Inspection)
                for name, inspected in answer.found.items():
                    results[name].peak_memory_bytes = inspected.peak_memory_bytes
                    results[name].kernels = inspected.kernels
                launch.inspect_seconds[case.id] = round(self._seconds.count() - began, 6)
                break

    # ---- the proof that each revision ran its own code

    def _audit(self) -> None:
        """UnprovenError if revisions left something in a process that they share."""
        if self._worker is None or not self.plan.looks_for_traces(self._index):
            return
        left = self._seconds.left()
        try:
            # Without it nothing that was measured counts: an end of the budget leaves it some time.
            answer = self._worker.ask(Audit(), None if left is None else max(left, _AUDIT_SECONDS))
        except WorkerDiedError as died:
            self._end_worker()
            raise UnprovenError(
                f"the process ended while it was checked for traces: {died}"
            ) from None
        assert isinstance(answer, Audited)
        if answer.trace:
            raise UnprovenError(answer.trace)

    # ---- the worker

    def _start_first_worker(self) -> None:
        """BudgetSpentError if the budget does not pay for a start, or ends it; the file has the
        seconds of one that it ended."""
        require_start(self.plan)
        try:
            self._start_worker()
        except WorkerDiedError:
            self.run = self.run or unstarted_run(self.plan)
            self.run.costs.lost_seconds += self._seconds.of_no_launch
            self._save()
            raise BudgetSpentError(
                f"{self.path}: the budget was spent before anything was measured; "
                f"{Spent.of(self.run).line}"
            ) from None

    def _start_worker(self) -> Worker | Crew:
        """A new worker that is ready, on the machine and builds of this run.

        A candidate that kills the worker at import is left out and reported as broken.
        """
        while True:
            self._seconds.start()
            began = self._seconds.count()
            named = {c.name: c for c in self.plan.candidates if c.name not in self._broken}
            order = candidate_order(list(named), self.plan.seed, self._index)
            usable = [named[name] for name in order]
            timeout = self.plan.timeout_seconds
            paired = self.plan.processes == "paired" and usable
            self._worker = (
                Crew(timeout, order, self._forks) if paired else Worker(timeout, self._forks)
            )
            try:
                ready = self._worker.ask(self.plan.setup(usable, self._index), self._seconds.left())
            except WorkerDiedError as died:
                self._end_worker()
                if died.status == "over_budget":
                    raise
                self._lost += self._seconds.count() - began
                if died.candidate not in [candidate.name for candidate in usable]:
                    raise NotMeasuredError(
                        f"the worker process did not start: {died}{how_to_install(str(died))}"
                    ) from None
                self._broken[died.candidate] = f"{died.status} when it was imported: {died}"
                continue
            assert isinstance(ready, Ready)
            self._audit()
            self._broken.update(ready.failures)
            listed = {candidate.name: candidate for candidate in ready.candidates}
            own = [listed.get(c.name, c) for c in self.plan.candidates]
            found = [c for c in ready.candidates if c.baseline] + own
            self.run = started_run(self.run, self.plan, ready, found, self.path)
            self._state = ready.state
            self._start = self._seconds.count() - began
            return self._worker

    def _count_start(self, launch: Launch) -> None:
        """The first start of a launch belongs to it, any other replaces a worker that died."""
        if not launch.start_seconds:
            launch.start_seconds, self._start = round(self._start, 6), 0.0
        launch.lost_seconds += self._lost + self._start
        self._start = self._lost = 0.0

    def _check_loaded(self) -> None:
        """With nothing but baselines left, there is nothing to compare: stop before measuring."""
        wanted = [candidate.name for candidate in self.plan.candidates]
        if self.plan.pair is not None:
            for name in (self.plan.pair.old, self.plan.pair.new):
                if name in self._broken:
                    raise NotMeasuredError(f"{name} does not load: {self._broken[name]}")
        if wanted and all(name in self._broken for name in wanted):
            raise NotMeasuredError(
                f"{self._broken[wanted[0]]} (--baseline-only measures the baseline alone)"
            )

    def _end_worker(self) -> None:
        if self._worker is not None:
            self._worker.kill()
            self._seconds.stop()
            self._worker = None

    # ---- results

    def _record(self, results: Sequence[Result]) -> None:
        assert self._launch is not None
        for result in results:
            self._launch.results.append(result)
            self._retries.add(result)
        self._dirty = True

    def _record_all(self, case: Case, names: Sequence[str], status: ResultStatus, why: str) -> None:
        self._record([Result(case=case.id, candidate=n, status=status, reason=why) for n in names])

    def _record_rest(self, status: ResultStatus, why: str) -> None:
        assert self.run is not None
        assert self._launch is not None
        for case, names in self._remaining.cases(self.run, self._launch).items():
            self._record_all(case, names, status, why)

    def _save(self) -> None:
        assert self.run is not None
        self._seconds.count()
        self.saving.save(self.run)
        self._dirty = False
