"""An asv suite of two checkouts: discovered once, then measured in pairs of processes."""

import random
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from flashbench.errors import InvalidInputError, NotMeasuredError
from flashbench.other_tools import asv_conf
from flashbench.pyproject import up_to_repository
from flashbench.suites.asv_names import with_matches
from flashbench.suites.checkouts import HOW_TO_BUILD, IMPORTED_OUTSIDE, Checkout
from flashbench.suites.driver_process import DriverProcess, FailedError
from flashbench.suites.suite_file import SuiteCase, SuiteResult

# asv's own default is up to 10 s of samples; a launch repeats them.
_SECONDS = 1.0
_REPEATED = ("time",)  # kinds that are measured twice a launch; of others a second run says nothing


def suite_folder(start: Path) -> Path:
    """The folder of benchmarks that the nearest asv.conf.json names. Raises InvalidInputError."""
    for folder in up_to_repository(start.absolute()):
        if conf := asv_conf.find(folder):
            named = asv_conf.read(conf).get("benchmark_dir", "benchmarks")
            suite = (folder / str(named)).resolve()
            if not suite.is_dir():
                raise InvalidInputError(f"{conf}: benchmark_dir: {suite} is no folder")
            return suite
    raise InvalidInputError(f"{start}: no {asv_conf.NAME} here or above; --asv is for asv's suites")


class AsvPair:
    """Both revisions' suites. Use as a context manager. together: results that come at once."""

    together = 1

    def __init__(
        self, a: Checkout, b: Checkout, suite: str, scratch: Path, tree: Path, timeout: float
    ) -> None:
        """suite: relative to a checkout. scratch: an empty folder beside the checkouts, for the
        folders that benchmarks run in. tree: the working tree, which must not be imported from.
        timeout: seconds of one request."""
        self._checkouts = {"A": a, "B": b}
        self._suite, self._scratch, self._tree = suite, scratch, tree
        self._timeout = timeout
        self._folders: dict[tuple[str, str], Path | FailedError] = {}
        self._at_end = ExitStack()
        self._sides: dict[str, DriverProcess] = {}

    def __enter__(self) -> "AsvPair":
        return self

    def __exit__(self, *_: object) -> None:
        self._at_end.close()

    def discover(self, pattern: str) -> tuple[list[SuiteCase], list[str]]:
        """The cases that a pattern finds in B, and what could not be imported. Raises
        InvalidInputError if there are none."""
        chosen = with_matches(self._place("B"), pattern)
        with self._start("B") as side:
            side.wait()
            try:
                found = side.ask(
                    do="discover", pattern=pattern, modules=chosen, folder=str(self._scratch)
                )
            except FailedError as error:
                raise NotMeasuredError(f"the suite cannot be read: {error}") from None
        broken = [f"{name} cannot be imported: {why}" for name, why in found["broken"]]
        cases = [SuiteCase(**one) for one in found["found"]]
        if not cases:
            why = f"; {broken[0]}; if the project has to be built, {HOW_TO_BUILD}" if broken else ""
            raise NotMeasuredError(f"--asv {pattern!r} finds no benchmark{why}")
        return cases, broken

    def launch(self, index: int, cases: Sequence[SuiteCase]) -> Generator[SuiteResult]:
        """Measure each case in new processes of both revisions, in turns."""
        order = "AB" if index % 2 == 0 else "BA"
        with ExitStack() as launch:
            for name in order:
                self._sides[name] = launch.enter_context(self._start(name))
            for name in order:
                self._sides[name].wait()
            shuffled = list(cases)
            random.Random(index).shuffle(shuffled)
            for place, case in enumerate(shuffled):
                for name in order:
                    if not self._sides[name].alive:  # a time-out ended it
                        self._sides[name] = launch.enter_context(self._start(name))
                        self._sides[name].wait()
                turns = order if place % 2 == 0 else order[::-1]
                result = self._measure(case, turns)
                for name in order:
                    self._prove(name)
                yield result
            for name in order:
                self._prove(name, whole=True)

    def _place(self, name: str) -> Path:
        return self._checkouts[name].folder / self._suite

    def _start(self, name: str) -> DriverProcess:
        return DriverProcess(self._checkouts[name], self._place(name), self._timeout)

    def _measure(self, case: SuiteCase, turns: str) -> SuiteResult:
        """Passes A B B A, or B A A B, of both sides set up."""
        samples: dict[str, list[list[float]]] = {"A": [], "B": []}
        ready: list[str] = []
        name = turns[0]
        try:
            for name in turns:
                self._set_up(name, case)
                ready.append(name)
            passes = [*turns, *turns[::-1]] if case.kind in _REPEATED else [*turns]
            for name in passes:
                samples[name].append(self._run(name, case))
            while ready:
                name = ready.pop()
                self._sides[name].ask(do="end")
        except FailedError as failed:
            if name in ready:
                ready.remove(name)
            other = "B" if name == "A" else "A"
            both = failed.status == "skipped" and self._skips(other, case, ready)
            self._abandon(ready)
            side = "" if both else name
            return SuiteResult(case=case.name, status=failed.status, reason=str(failed), side=side)
        return SuiteResult(case=case.name, a=samples["A"], b=samples["B"])

    def _set_up(self, name: str, case: SuiteCase) -> None:
        self._sides[name].ask(
            case.timeout,
            do="measure",
            name=case.benchmark,
            index=case.index,
            folder=str(self._folder(name, case)),
            seconds=_SECONDS,
        )

    def _run(self, name: str, case: SuiteCase) -> list[float]:
        values: list[float] = self._sides[name].ask(case.timeout, do="run")["values"]
        return values

    def _skips(self, name: str, case: SuiteCase, ready: list[str]) -> bool:
        """Whether this side skips the case too: then the suite intends it, at either revision."""
        try:
            if name not in ready:
                self._set_up(name, case)
                ready.append(name)
            self._run(name, case)
        except FailedError as failed:
            if name in ready:
                ready.remove(name)
            return failed.status == "skipped"
        return False

    def _abandon(self, ready: Sequence[str]) -> None:
        """End the other side's fork; its failure no longer matters."""
        for name in ready:
            try:
                self._sides[name].ask(do="end")
            except FailedError:
                continue

    def _folder(self, name: str, case: SuiteCase) -> Path:
        """Where a benchmark runs: with asv's cache, made once for each revision. Raises
        FailedError."""
        known = self._folders.get((name, case.cache))
        if known is None:
            known = self._scratch / f"{name}-{len(self._folders)}"
            known.mkdir()
            if case.cache:
                try:
                    limit = case.cache_timeout or case.timeout
                    self._sides[name].ask(limit, do="cache", name=case.benchmark, folder=str(known))
                except FailedError as failed:
                    known = FailedError(failed.status, f"setup_cache: {failed}")
            self._folders[name, case.cache] = known
        if isinstance(known, FailedError):
            raise known
        return known

    def _prove(self, name: str, *, whole: bool = False) -> None:
        """NotMeasuredError if the process ran other code than its revision's; after a whole launch,
        also if it ran none of it."""
        side, checkout = self._sides[name], self._checkouts[name]
        if not side.alive:
            return
        found: dict[str, Any] = side.ask(
            do="origins",
            tree=str(self._tree.resolve()),
            checkouts=str(self._scratch.parent.resolve()),
            place=str(checkout.folder.resolve()),
            suite=str(self._place(name).resolve()),
        )
        if found["outside"]:
            raise NotMeasuredError(IMPORTED_OUTSIDE.format(name, found["outside"][0], self._tree))
        if whole and not found["own"]:
            raise NotMeasuredError(
                f"{name}: the suite imports nothing of the revision's own: set path, and build if "
                "it needs one, in [tool.flashbench.project] of pyproject.toml"
            )
