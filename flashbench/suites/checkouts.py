"""A revision as a whole checkout, with the suite of the working tree: as asv runs it, so that both
revisions answer the same questions."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from flashbench.builds import cache_directory
from flashbench.builds.content import content_hash
from flashbench.builds.delivered import copy_delivered
from flashbench.errors import NotMeasuredError
from flashbench.revisions import adapter, backend
from flashbench.revisions.announced import build_one
from flashbench.revisions.export import export
from flashbench.revisions.project import Project
from flashbench.revisions.revision import Revision
from flashbench.streams import Tell
from flashbench.suites.suite_file import SuiteSide

HOW_TO_BUILD = (
    "say how in [tool.flashbench.project] of pyproject.toml: build "
    '= ["python", "setup.py", "build_ext", "--inplace"]'
)
HOW_TO_FIND = "run this in the package's folder, or set path in [tool.flashbench.project]"
IMPORTED_OUTSIDE = (  # of a side, a module and the working tree
    "{}: {} was imported from the working tree {}, not from the revision; uninstall the editable "
    "install of the project"
)
_LEFT_OUT = shutil.ignore_patterns("__pycache__", ".asv", ".git", "env", "*.pyc")


@dataclass(frozen=True)
class Checkout:
    """folder: the whole tree; home: the project's folder in it; paths: to import from."""

    side: SuiteSide
    folder: Path
    home: Path
    paths: list[str]

    def environment(self, *last: Path) -> dict[str, str]:
        """The environment of a process that imports the revision's code. last: folders to import
        from at last."""
        paths = [*self.paths, *map(str, last), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def check_out(
    project: Project,
    revision: Revision,
    label: str,
    target: Path,
    suite: str,
    tell: Tell,
    *,
    timeout: float,
    retry_failed: bool,
) -> Checkout:
    """Write a revision into the new folder `target`, built if the settings say how. suite: the
    folder or file of benchmarks, relative to the repository. Raises NotMeasuredError."""
    exported = export(project.repository, revision, target)
    adapter.put_into(project, target)
    _put_suite(project.repository, target, suite)
    home = target / project.directory
    home.mkdir(parents=True, exist_ok=True)  # a commit may be older than the folder
    root = home / project.path
    if project.build != ():
        built = build_one(
            project,
            revision,
            label,
            tell,
            stage="build",
            timeout=timeout,
            retry_failed=retry_failed,
        )
        if built.build.status != "built":
            raise NotMeasuredError(f"{label} = {built.headline}")
        copy_delivered(cache_directory() / built.build.directory / "lib", root)
    side = SuiteSide(
        revision=revision.text,
        commit=revision.commit,
        dirty=exported.dirty,
        content=content_hash(target),
    )
    layout = [root / "src", root] if project.path == "." and (root / "src").is_dir() else [root]
    return Checkout(side, target, home, [str(path) for path in layout])


def unbuilt(project: Project) -> str:
    """A line on what a project compiles and no settings build, with the fix; "" for nothing."""
    setup = project.repository / project.directory / "setup.py"
    if project.build != () or project.sources or not setup.is_file():
        return ""
    if not backend.setup_compiles(setup.read_text(encoding="utf-8", errors="replace")):
        return ""
    return f"setup.py compiles, but no setting builds the revisions; {HOW_TO_BUILD}"


def _put_suite(repository: Path, target: Path, suite: str) -> None:
    """Replace the revision's suite by the working tree's; a suite that is the whole tree stays."""
    source, place = repository / suite, target / suite
    if source == repository:
        return
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, place, symlinks=True, ignore=_LEFT_OUT)
    else:
        shutil.copy2(source, place)
