"""Build and import revisions, and say so, one line at a time."""

from collections.abc import Mapping

from flashbench import defaults
from flashbench.builds import cache_directory
from flashbench.builds.recipe import PROBE_TIMEOUT_SECONDS
from flashbench.builds.running import reported
from flashbench.candidates import OUR_CALLABLE, OURS, name_of
from flashbench.errors import NotMeasuredError
from flashbench.revisions.built import Built
from flashbench.revisions.check import Checker
from flashbench.revisions.ledger import Stage
from flashbench.revisions.prepare import prepare
from flashbench.revisions.project import Project
from flashbench.revisions.revision import WORKTREE, Revision, resolve
from flashbench.runfile import Candidate
from flashbench.streams import Tell

_STEP_WIDTH = 100  # characters shown of a build's step


def build_one(
    project: Project,
    revision: Revision,
    label: str,
    tell: Tell,
    *,
    stage: Stage = "load",
    timeout: float = defaults.BUILD_TIMEOUT_SECONDS,
    retry_failed: bool = False,
) -> Built:
    """Build and import one revision once, whatever the outcome. label: its name in messages; stage:
    how far to check it; timeout: seconds of the build."""
    tell(f"{label} = {revision.label}: building, for at most {timeout:g} s")

    def report(seconds: float, step: str) -> None:
        tell(f"{label}: building, {seconds:.0f} s: {step[:_STEP_WIDTH]}".removesuffix(": "))

    with reported(report), Checker(min(timeout, PROBE_TIMEOUT_SECONDS), timeout) as checker:
        built = prepare(
            project,
            revision,
            cache_directory(),
            stage=stage,
            retry_failed=retry_failed,
            timeout=timeout,
            checker=checker,
        )
    for note in built.outcome.notes:
        tell(f"{label}: {note}")
    how = "built before" if built.build.reused else f"built in {built.build.seconds:.0f} s"
    if built.import_root is not None:
        tell(f"{label}: {how}")
    return built


def build_all(
    project: Project,
    texts: Mapping[str, str],
    tell: Tell,
    *,
    timeout: float = defaults.BUILD_TIMEOUT_SECONDS,
    retry_failed: bool = False,
) -> dict[str, Built]:
    """Build revisions, by label. Tries all even if one fails, to report all errors at once:
    NotMeasuredError."""
    revisions = {name: resolve(project.repository, text) for name, text in texts.items()}
    builds = {
        name: build_one(project, revision, name, tell, timeout=timeout, retry_failed=retry_failed)
        for name, revision in revisions.items()
    }
    failed = [
        f"{name} = {built.headline}" for name, built in builds.items() if built.import_root is None
    ]
    if failed:
        raise NotMeasuredError("; ".join(failed))
    return builds


def build_working_tree(
    project: Project,
    tell: Tell,
    *,
    timeout: float = defaults.BUILD_TIMEOUT_SECONDS,
    retry_failed: bool = False,
) -> Built:
    """The working tree of a project, built like WORKTREE in `compare`. Raises NotMeasuredError if
    it does not build or import."""
    tree = resolve(project.repository, WORKTREE)
    built = build_one(
        project, tree, project.callable, tell, timeout=timeout, retry_failed=retry_failed
    )
    built.require()
    return built


def callable_of(project: Project) -> Candidate:
    """The project's callable, as a candidate."""
    name = OURS if project.callable == OUR_CALLABLE else name_of(project.callable)
    return Candidate(name=name, spec=project.callable)
