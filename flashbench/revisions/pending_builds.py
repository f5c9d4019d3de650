"""Estimate which revisions must be built, without building any."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from flashbench.builds import commit_index, toolchain
from flashbench.builds.builder import find, key_of
from flashbench.builds.scratch import scratch
from flashbench.cost.estimate import Seconds
from flashbench.cost.store import CostRecords
from flashbench.revisions import adapter, git, ledger
from flashbench.revisions.export import UnreadableError, export, lacks
from flashbench.revisions.fingerprint import contents_of
from flashbench.revisions.prepare import recipe_of
from flashbench.revisions.project import Project
from flashbench.revisions.revision import Revision


def to_build(project: Project, revisions: Sequence[Revision], cache: Path) -> int:
    """How many builds they need now: one per set of equal sources, none for cached or unreadable
    revisions."""
    missing: set[str] = set()
    for revision in revisions:
        try:
            key = _missing(project, revision, cache)
        except (git.GitError, UnreadableError, OSError):
            continue
        if key:
            missing.add(key)
    return len(missing)


def _missing(project: Project, revision: Revision, cache: Path) -> str:
    """A key of the build that a revision lacks; "" if it is cached."""
    recipe = recipe_of(project)
    tools = toolchain.describe(recipe.variables)
    if revision.worktree:
        cache.mkdir(parents=True, exist_ok=True)
        with ExitStack() as at_end:
            checkout = at_end.enter_context(scratch(cache)) / "everything"
            export(project.repository, revision, checkout)
            adapter.put_into(project, checkout)
            sources = recipe.source_hash(checkout)
        return "" if find(cache, key_of(recipe, sources, tools)) else sources
    contents = contents_of(project, revision.commit)
    absent = lacks(project.repository, contents.modules)
    shortcut = ["build", *recipe.key, sorted(tools.items()), contents.sources, *absent]
    key = commit_index.find(cache, shortcut)
    return "" if key and find(cache, key) else contents.sources


def build_seconds(project: Project, cache: Path, costs: CostRecords) -> Seconds | None:
    """Seconds of the fastest and slowest build here; None without any."""
    made = [one for one in ledger.everything(cache, project.repository) if one.status == "built"]
    seconds = [one.seconds for one in made if one.seconds]
    return _range(seconds + costs.builds.get(str(project.repository), []))


def check_seconds(project: Project, costs: CostRecords) -> Seconds | None:
    """Seconds that revisions took beside their builds: checkout, import, calls of small cases."""
    return _range(costs.checks.get(str(project.repository), []))


def _range(seconds: list[float]) -> Seconds | None:
    return Seconds(min(seconds), median(seconds), max(seconds)) if seconds else None
