"""One build under two names, for `aa` to compare it with itself."""

from pathlib import Path
from typing import Any

from flashbench.candidates import OUR_CALLABLE, OURS, parse_candidate
from flashbench.revisions.announced import build_working_tree
from flashbench.revisions.built import NEW, OLD
from flashbench.revisions.installed import copy_installed
from flashbench.revisions.project import find
from flashbench.revisions.revision import WORKTREE
from flashbench.revisions.working_tree import build_again
from flashbench.runfile import BuildIdentity, Candidate, RunFile
from flashbench.streams import Tell


def build_twice(
    asked: str | None, resumed: tuple[RunFile, Path] | None, directory: Path, tell: Tell, **how: Any
) -> dict[str, Any]:
    """The fields of a Plan that say what is measured: one build as two candidates.

    asked: MODULE:FUNCTION; None: the project's callable of the working tree, or our own attention
    without a project. resumed: a run and its file, whose build it must be. directory: for a copy of
    what is installed. how: as in `build_working_tree`. Raises InvalidInputError, NotMeasuredError.
    """
    spec, import_root, identity = _build(asked, resumed, directory, tell, **how)
    return {
        "candidates": [Candidate(name=name, spec=spec, build=identity) for name in (OLD, NEW)],
        "import_roots": {OLD: str(import_root), NEW: str(import_root)},
        "backends": "default",
    }


def _build(
    asked: str | None, resumed: tuple[RunFile, Path] | None, directory: Path, tell: Tell, **how: Any
) -> tuple[str, Path, BuildIdentity]:
    """The build: its name, import root and identity."""
    project = find(Path.cwd())
    if resumed is not None:
        run, file = resumed
        assert run.pair is not None
        old = next(c for c in run.candidates if c.name == run.pair.old)
        if old.build.revision == WORKTREE:
            built = build_again(project, old, file, tell, **how)
            return old.spec, built.require(), built.identity
        spec = old.spec
    elif asked is None and project is not None:
        built = build_working_tree(project, tell, **how)
        return project.callable, built.require(), built.identity
    else:
        spec = parse_candidate(asked or OURS).spec
        spec = OUR_CALLABLE if spec == OURS else spec
        tell(f"measuring {spec}, as it is imported here")
    roots = [str(project.import_root)] if project is not None else []
    return spec, *copy_installed(spec, directory, roots)
