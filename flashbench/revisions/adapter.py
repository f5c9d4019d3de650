"""The project's adapter: a file or folder of the working tree that every revision gets, so that
commits from before it was written can be measured."""

import os
import re
import shutil
from pathlib import Path, PurePosixPath

from flashbench.builds.content import content_hash
from flashbench.errors import InvalidInputError
from flashbench.revisions import git
from flashbench.revisions.export import UnreadableError
from flashbench.revisions.project import TABLE, Project

_NAMES = re.compile(r"[\w./+-]+")
_MOST_NAMES = 200  # of a reason


def digest(project: Project) -> str:
    """The hash of its names and contents; "" without one. Raises InvalidInputError if the working
    tree lacks it."""
    files = _files(project)
    return content_hash(project.repository, files) if files else ""


def put_into(project: Project, checkout: Path) -> None:
    """Replace what a checkout has in its place. Raises InvalidInputError as `digest`, and
    UnreadableError if the checkout has a link or a file where a folder must be."""
    files = _files(project)
    if not files:
        return
    target = checkout / _place(project)
    above = _real(target.parent)
    if not above.is_relative_to(_real(checkout)) or (above.exists() and not above.is_dir()):
        raise UnreadableError(f"it has a link or a file above the adapter {project.adapter}")
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)
    for name in files:
        place = checkout / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(project.repository / name, place)


def hint(project: Project, commit: str, reason: str) -> str:
    """Say which file or folder of the working tree a failure is about that the commit lacks, and
    what to do; "" if there is none."""
    module = project.callable.partition(":")[0].partition(".")[0]
    root = PurePosixPath(project.directory)
    names, found = _NAMES.findall(reason)[:_MOST_NAMES], []
    if module in names:
        found = [root / project.path / name for name in (f"{module}.py", module)]
    for name in names:
        path = PurePosixPath(name)
        if not path.is_absolute() and ".." not in path.parts:
            found += [*reversed([root / one for one in path.parents if one.name]), root / path]
    for path in dict.fromkeys(found):
        name = str(path)
        if _is_here(project.repository, name) and not _has(project.repository, commit, name):
            shown = path.relative_to(root)
            return (
                f"{shown} is in the working tree, not in this commit: name it in {TABLE} as "
                f'adapter = "{shown}", and every revision gets it'
            )
    return ""


def _is_here(repository: Path, name: str) -> bool:
    """Whether the working tree has it, and git does not ignore it."""
    return os.path.lexists(repository / name) and bool(_listed(repository, name))


def _has(repository: Path, commit: str, name: str) -> bool:
    return bool(git.ask(repository, "ls-tree", "-z", "--full-tree", commit, "--", name))


def _listed(repository: Path, name: str) -> list[str]:
    asked = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", name)
    return sorted({os.fsdecode(one) for one in git.ask(repository, *asked).split(b"\0") if one})


def _place(project: Project) -> str:
    return str(PurePosixPath(project.directory, project.adapter))


def _files(project: Project) -> list[str]:
    """Paths relative to the repository; for a folder, what git tracks or does not ignore."""
    if not project.adapter:
        return []
    path = project.repository / _place(project)
    found = [_place(project)] if path.is_file() else []
    if path.is_dir():
        names = _listed(project.repository, _place(project))
        found = [name for name in names if (project.repository / name).is_file()]
    if not found:
        raise InvalidInputError(
            f"{TABLE} adapter: {path} is not a file, or a folder with files that git does not "
            "ignore; write it, or correct the setting"
        )
    return found


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))
