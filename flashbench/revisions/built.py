"""A prepared revision: the outcome, and its callable."""

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flashbench.builds import Build, BuildStatus
from flashbench.builds.content import content_hash
from flashbench.errors import NotMeasuredError
from flashbench.measuring.plan import Plan
from flashbench.revisions.ledger import RevisionOutcome
from flashbench.revisions.project import Project
from flashbench.revisions.revision import Revision
from flashbench.runfile import BuildIdentity, Candidate

OLD, NEW = "A", "B"  # of two builds


@dataclass(frozen=True)
class Built:
    """The outcome of preparing one revision.

    import_root: where its callable is imported from; None if its import failed, or if only the
    build was requested. reused: nothing was built or tried for this call. kept: whether it is an
    answer about the sources; a failure for lack of memory, disk or a tool, or to read the commit,
    is not. when: began and ended (of `time.monotonic`), building and checking; None if reused.
    """

    project: Project
    revision: Revision
    outcome: RevisionOutcome
    build: Build
    identity: BuildIdentity
    import_root: Path | None = None
    reused: bool = False
    kept: bool = True
    when: tuple[float, float] | None = None

    @property
    def status(self) -> BuildStatus:
        return self.outcome.status

    @property
    def reason(self) -> str:
        """The first lines that explain why the status is not "built"."""
        return self.outcome.reason

    @property
    def headline(self) -> str:
        """One line: the revision, the outcome and the first line of the reason."""
        first = self.reason.partition("\n")[0]
        words = f"{self.status}: {first}" if first else self.status
        return "; ".join([f"{self.revision.label}: {words}", *self.outcome.notes])

    @property
    def is_measurable(self) -> bool:
        """Whether it can be launched: nothing is known against it. If it refused every case tried,
        each launch checks it on the cases that it measures."""
        return self.import_root is not None and self.status in ("built", "unchecked")

    def is_same_as(self, other: "Built") -> bool:
        """Whether everything importable in both, Python and libraries, is equal byte for byte, and
        so is the callable: then neither result nor time can differ. Compares the actual files,
        whatever the records say."""
        mine, theirs = self.require(), other.require()
        if self.project.callable != other.project.callable:
            return False
        return mine == theirs or content_hash(mine) == content_hash(theirs)

    def require(self) -> Path:
        """The import root; NotMeasuredError (exit code 4) with the headline if there is none."""
        if self.import_root is None:
            raise NotMeasuredError(self.headline)
        return self.import_root

    def candidate(self, name: str) -> Candidate:
        """The revision's callable as a candidate; its import root goes into the worker's Setup."""
        return Candidate(name=name, spec=self.project.callable, build=copy(self.identity))


def setup_of_builds(builds: Mapping[str, Built]) -> dict[str, Any]:
    """The fields, of a Plan or of a worker's Setup, that say which builds, at least one, are
    measured under these names."""
    return {
        "candidates": [built.candidate(name) for name, built in builds.items()],
        "import_roots": {name: str(built.require()) for name, built in builds.items()},
        "repository": str(next(iter(builds.values())).project.repository),
        "backends": "default",
    }


def plan_of_builds(builds: Mapping[str, Built]) -> dict[str, Any]:
    """`setup_of_builds` of a Plan that pays for the builds."""
    return setup_of_builds(builds) | {"build_seconds": seconds_of(builds.values())}


def with_builds(plan: Plan, builds: Mapping[str, Built]) -> Plan:
    """The plan, with the builds of its candidates of these names."""
    return replace(
        plan,
        candidates=[
            builds[one.name].candidate(one.name) if one.name in builds else one
            for one in plan.candidates
        ],
        import_roots={name: str(built.require()) for name, built in builds.items()},
        build_seconds=seconds_of(builds.values()),
    )


def seconds_of(builds: Iterable[Built]) -> float:
    """Seconds, by the clock, of building and checking for this call; side by side counts once."""
    total = until = 0.0
    for began, ended in sorted(built.when for built in builds if built.when):
        total += max(0.0, ended - max(began, until))
        until = max(until, ended)
    return round(total, 3)
