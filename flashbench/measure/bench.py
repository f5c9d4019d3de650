"""The launches of a run: worker processes over a grid of cases, saved as they are measured."""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from flashbench import __version__
from flashbench.case import Case
from flashbench.errors import InvalidInputError, NotMeasuredError
from flashbench.measure.advice import advice
from flashbench.measure.history import UNFINISHED, History
from flashbench.measure.identity import difference
from flashbench.measure.plan import Plan, candidate_order, case_order, launch_seed
from flashbench.measure.process import Worker, WorkerDiedError
from flashbench.measure.progress import Progress
from flashbench.measure.protocol import Done, Inspect, Inspection, Measure, Ready, Setup
from flashbench.measure.saving import Saving
from flashbench.runfile import (
    Candidate,
    DeviceState,
    Launch,
    Result,
    RunFile,
    Settings,
    Status,
)
from flashbench.shard import cases_of_shard

# Ids of the cases that need no more launches, from what was measured so far.
Settled = Callable[[RunFile], Collection[str]]


@dataclass
class Bench:
    """A run on its way: the launches of a plan, the worker at work, the file that grows.

    settled: asked after each launch; cases that it names leave the plan.
    """

    plan: Plan
    path: Path
    progress: Progress
    run: RunFile | None
    settled: Settled = lambda run: ()
    over_budget: bool = False
    _settled: frozenset[str] = frozenset()
    _index: int = 0  # of the launch that the worker is for
    _worker: Worker | None = None
    _launch: Launch | None = None
    _tick: float = 0.0  # until when the seconds of this worker are accounted
    _device_seconds: float = 0.0  # of this invocation
    _broken: dict[str, str] = field(default_factory=dict)  # candidates that do not load
    _history: History = field(default_factory=History)
    _state: DeviceState | None = None  # when the latest worker was ready
    _steps: int = 0
    _dirty: bool = False

    def __post_init__(self) -> None:
        self._saving = Saving(self.path)

    def measure(self) -> None:
        resumed = self.run is not None
        if self.run is not None:
            self._forget_unfinished(self.run)
            self._settle(self.run)
            left = [launch.index for launch in self._planned(self.run) if not launch.complete]
            self._index = left[0] if left else 0
            if not left or self._all_settled(self.run):
                self.progress.note("nothing is missing in the file")
                self._save()  # with -o it is another file, which is promised
                return
        try:
            self._start_worker()
        except WorkerDiedError:
            raise NotMeasuredError("--budget was spent before anything was measured") from None
        assert self.run is not None
        if not resumed:
            self._check_loaded()
        for line in advice(self.run, self._state, self.plan.launches):
            self.progress.note(line)
        launches = [launch for launch in self._planned(self.run) if not launch.complete]
        self._steps = sum(len(self._missing(launch)) for launch in launches)
        self.progress.begin(self._steps)
        for place, launch in enumerate(launches):
            self._index = launch.index
            self._measure_launch(launch)
            if self.over_budget:
                break
            newly = self._settle(self.run)
            self._steps -= newly * (len(launches) - place - 1)
            self.progress.begin(self._steps)
            if self._all_settled(self.run):
                break

    def close(self, interrupted: bool) -> None:
        """End the worker, say what was cut short, save."""
        self._end_worker()
        if self.run is None or self._launch is None:
            return
        if interrupted and self._launch.results:
            self._record_rest("interrupted", "the run was interrupted before its turn")
        if self._dirty:
            self._save()

    # ---- launches

    def _planned(self, run: RunFile) -> list[Launch]:
        """The launches of the plan, those of the file first; new ones join it when they start."""
        known = {launch.index: launch for launch in run.launches}
        return [
            known.get(index) or Launch(index=index, seed=launch_seed(self.plan.seed, index))
            for index in range(self.plan.launches)
        ]

    def _missing(self, launch: Launch) -> dict[Case, list[str]]:
        """Cases in the launch's order, with the candidates that have no result there."""
        assert self.run is not None
        there = {(result.case, result.candidate) for result in launch.results}
        names = [candidate.name for candidate in self.run.candidates]
        mine = set(cases_of_shard(self.run.cases, self.run.settings.shard))
        missing = {
            case: [name for name in names if (case.id, name) not in there]
            for case in case_order(self.run.cases, launch.seed)
            if case in mine and case.id not in self._settled
        }
        return {case: rest for case, rest in missing.items() if rest}

    def _settle(self, run: RunFile) -> int:
        """Take the cases that need no more out of the plan; how many that are."""
        before = len(self._settled)
        self._settled |= frozenset(self.settled(run))
        newly = len(self._settled) - before
        if newly:
            self.progress.note(f"decided: {len(self._settled)} of {len(run.cases)} cases")
        return newly

    def _all_settled(self, run: RunFile) -> bool:
        return all(case.id in self._settled for case in run.cases)

    def _measure_launch(self, launch: Launch) -> None:
        assert self.run is not None
        self._launch = launch
        if all(known is not launch for known in self.run.launches):
            launch.started = datetime.now(UTC).isoformat(timespec="seconds")
            self.run.launches.append(launch)
        self._account()
        for case, names in self._missing(launch).items():
            self.progress.case(launch.index, case.id)
            self._measure_case(launch, case, names)
            self.progress.step()
            if self._saving.due:
                self._save()
        if not self.over_budget:
            self._inspect(launch)
            launch.complete = True
        self._end_worker()
        self._save()
        failed = sum(result.status != "ok" for result in launch.results)
        self.progress.note(
            f"launch {launch.index + 1} of {self.plan.launches}: "
            f"{len(launch.results) - failed} measured, {failed} not, "
            f"{launch.device_seconds:.1f} device seconds"
        )

    def _measure_case(self, launch: Launch, case: Case, names: list[str]) -> None:
        given_up = {name: self._history.given_up(case.id, name) for name in names}
        self._record([result for result in given_up.values() if result])
        pending = [name for name in names if not given_up[name]]
        while pending:
            if broken := [name for name in pending if name in self._broken]:
                for name in broken:
                    self._record_all(case, [name], "error", self._broken[name])
                pending = [name for name in pending if name not in broken]
                continue
            left = self._seconds_left()
            if left is not None and left <= 0:
                self.over_budget = True
                self._record_all(case, pending, "over_budget", "--budget was spent before its turn")
                return
            try:
                if self._worker is None:
                    self._start_worker()
                    continue  # who is broken, and what is left of the budget, may have changed
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
            assert isinstance(done, Done)
            launch.before = launch.before or self._state
            launch.after = done.state
            self._record(done.results)
            self.over_budget |= any(r.status == "over_budget" for r in done.results)
            return

    def _inspect(self, launch: Launch) -> None:
        """Memory and kernels, once, after all timing: looking changes the process."""
        assert self.run is not None
        if launch.index != 0:
            return
        for case in self.run.cases:
            results = {
                r.candidate: r for r in launch.results if r.case == case.id and r.status == "ok"
            }
            left = self._seconds_left()
            if not results or (left is not None and left <= 0):
                continue
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
                break

    # ---- the worker

    def _start_worker(self) -> Worker:
        """A new worker that is ready, on the machine and builds of this run.

        A candidate that kills the worker when it is imported is left out and named as broken.
        """
        while True:
            self._tick = time.monotonic()
            self._worker = Worker(self.plan.timeout_seconds)
            named = {c.name: c for c in self.plan.candidates if c.name not in self._broken}
            order = candidate_order(list(named), self.plan.seed, self._index)
            usable = [named[name] for name in order]
            setup = Setup(
                device=self.plan.device,
                candidates=usable,
                backends=self.plan.backends,
                threads=self.plan.threads,
                samples=self.plan.samples,
                min_sample_seconds=self.plan.min_sample_seconds,
                metrics=None if self.plan.metrics is None else list(self.plan.metrics),
                sites=dict(self.plan.sites),
            )
            try:
                ready = self._worker.ask(setup, self._seconds_left())
            except WorkerDiedError as died:
                self._end_worker()
                if died.status == "over_budget":
                    raise
                if died.candidate not in [candidate.name for candidate in usable]:
                    raise NotMeasuredError(f"the worker process did not start: {died}") from None
                self._broken[died.candidate] = f"{died.status} when it was imported: {died}"
                continue
            assert isinstance(ready, Ready)
            self._broken.update(ready.failures)
            listed = {candidate.name: candidate for candidate in ready.candidates}
            candidates = [c for c in ready.candidates if c.baseline]
            candidates += [listed.get(c.name, c) for c in self.plan.candidates]
            self._join(ready, candidates)
            self._state = ready.state
            return self._worker

    def _join(self, ready: Ready, candidates: list[Candidate]) -> None:
        if self.run is None:
            self.run = self._new_run(ready, candidates)
            return
        if changed := difference(self.run, ready.environment, candidates):
            raise InvalidInputError(
                f"{self.path}: cannot go on, {changed}; measure into a new file"
            )

    def _new_run(self, ready: Ready, candidates: list[Candidate]) -> RunFile:
        plan = self.plan
        cases = plan.cases(ready.device)
        cases_of_shard(cases, plan.shard)  # refuses more shards than cases
        return RunFile(
            flashbench=__version__,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            command=list(plan.command),
            environment=ready.environment,
            settings=Settings(
                launches=plan.launches,
                samples=plan.samples,
                seed=plan.seed,
                min_sample_seconds=ready.min_sample_seconds,
                timeout_seconds=plan.timeout_seconds,
                budget_seconds=plan.budget_seconds,
                shard=plan.shard,
            ),
            candidates=candidates,
            cases=cases,
            hourly_rate=plan.hourly_rate,
            pair=plan.pair,
        )

    def _check_loaded(self) -> None:
        """With nothing but baselines left, there is nothing to compare: stop before measuring."""
        wanted = [candidate.name for candidate in self.plan.candidates]
        if self.plan.pair is not None:
            for name in (self.plan.pair.old, self.plan.pair.new):
                if name in self._broken:
                    raise NotMeasuredError(f"{name} does not load: {self._broken[name]}")
        if wanted and all(name in self._broken for name in wanted):
            raise NotMeasuredError(
                f"{self._broken[wanted[0]]} (--baseline-only measures SDPA alone)"
            )

    def _end_worker(self) -> None:
        if self._worker is not None:
            self._worker.kill()
            self._account()
            self._worker = None

    def _account(self) -> float:
        """Device seconds of this invocation so far; adds what is new to the current launch."""
        if self._worker is not None:
            now = time.monotonic()
            self._device_seconds += now - self._tick
            if self._launch is not None:
                self._launch.device_seconds += now - self._tick
            self._tick = now
        return self._device_seconds

    def _seconds_left(self) -> float | None:
        budget = self.plan.budget_seconds
        return None if budget is None else budget - self._account()

    # ---- results

    def _record(self, results: Sequence[Result]) -> None:
        assert self._launch is not None
        for result in results:
            self._launch.results.append(result)
            self._history.add(result)
        self._dirty = True

    def _record_all(self, case: Case, names: Sequence[str], status: Status, why: str) -> None:
        self._record([Result(case=case.id, candidate=n, status=status, reason=why) for n in names])

    def _record_rest(self, status: Status, why: str) -> None:
        assert self._launch is not None
        for case, names in self._missing(self._launch).items():
            self._record_all(case, names, status, why)

    def _forget_unfinished(self, run: RunFile) -> None:
        """Take out of a resumed file what is to be measured now, and learn from the rest."""
        run.settings.launches = self.plan.launches
        run.settings.timeout_seconds = self.plan.timeout_seconds
        run.settings.budget_seconds = self.plan.budget_seconds
        run.hourly_rate = self.plan.hourly_rate
        for launch in run.launches:
            # Who was measured beside one that was put off is measured again beside it: a ratio
            # over two processes, or two machines, would be none.
            torn = {result.case for result in launch.results if result.status in UNFINISHED}
            kept = [
                result
                for result in launch.results
                if result.status not in UNFINISHED
                and not (result.status == "ok" and result.case in torn)
            ]
            launch.complete = launch.complete and len(kept) == len(launch.results)
            launch.results = kept
            for result in launch.results:
                self._history.add(result)

    def _save(self) -> None:
        assert self.run is not None
        self._account()
        self._saving.save(self.run)
        self._dirty = False
