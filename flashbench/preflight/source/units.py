"""The files that a build names: all there, their submodules fetched."""

import os
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from flashbench.preflight.finding import CannotCheck, Finding, Severity
from flashbench.preflight.source.cxx import UNITS
from flashbench.preflight.source.generated import may_be_generated
from flashbench.preflight.source.listings import listed
from flashbench.preflight.source.setup_script import why_unreadable
from flashbench.preflight.source.tree import SourceTree, how_to_add
from flashbench.revisions import git

# What copies units of C++ for another compiler before it compiles them.
_RENAMES = re.compile(r"\b(rename\w*|hipify\w*)\(")


def listed_but_missing(tree: SourceTree) -> Iterator[Finding]:
    """A unit that setup.py, CMake or make names, and that is not there or not in git; a setup.py
    that Python cannot read."""
    if "setup.py" in tree.files and (broken := why_unreadable(tree, "setup.py")):
        line, why = broken
        yield Finding(f"setup.py:{line}", f"Python cannot read it: {why}", "python setup.py --name")
    for file, name, line in listed(tree):
        found = resolve(tree, file, name)
        where = f"{file}:{line}"
        if not found:
            yield from _not_found(tree, file, name, where)
        elif tree.tracked is not None and not any(one in tree.tracked for one in found):
            yield Finding(
                where,
                f"lists {found[0]}, which is on this machine alone: git does not track it",
                how_to_add(tree, found[0]),
            )


def _not_found(tree: SourceTree, file: str, name: str, where: str) -> Iterator[Finding]:
    """What to say of a unit that git does not list; nothing for one of a submodule, or that lies
    above the project or is written by the build."""
    path = _path(file, name)
    if any(path.startswith(f"{module}/") for module in tree.modules):
        return  # of a submodule: fetched, or said to be missing
    if may_be_generated(tree, name, file):
        return
    if (tree.root / path).is_file():
        if tree.tracked is not None and not path.startswith("../"):
            yield Finding(
                where,
                f"lists {path}, which is on this machine alone: git ignores it",
                how_to_add(tree, path),
            )
        return
    kin = _renamed(tree, file, name)
    if kin and _RENAMES.search(tree.read(file).text):
        return
    yield Finding(
        where,
        f"lists {name}: no such file" + (f", though {kin} is there" if kin else ""),
        f"git log --all --oneline -- '*{PurePosixPath(name).name}'",
        # hipify and the like rename before they compile
        "warning" if kin else _severity(tree, file),
    )


def _severity(tree: SourceTree, file: str) -> Severity:
    """An error for a build file that decides the build: at the root, or entered from there."""
    folder = PurePosixPath(file).parent
    if folder == PurePosixPath():
        return "error"
    above = tree.read((folder.parent / "CMakeLists.txt").as_posix()).text
    entered = f"add_subdirectory({folder.name}" in above or _is_built_by_setup(tree, folder)
    return "error" if file.endswith("CMakeLists.txt") and entered else "warning"


def _is_built_by_setup(tree: SourceTree, folder: PurePosixPath) -> bool:
    """Whether setup.py or pyproject.toml runs CMake in a folder, where the root has nothing for
    CMake."""
    if "CMakeLists.txt" in tree.files:
        return False
    texts = [tree.read(name).text for name in ("setup.py", "pyproject.toml")]
    named = re.compile(rf"[\"'/]{re.escape(folder.as_posix())}[\"'/]")
    return any("cmake" in text.lower() and named.search(text) for text in texts)


def units_without_source(tree: SourceTree) -> str:
    """A unit that the build names and that cannot be read here; "" without one."""
    return next((name for file, name, _ in listed(tree) if not resolve(tree, file, name)), "")


def submodule_not_as_recorded(tree: SourceTree) -> Iterator[Finding]:
    """A submodule whose folder is empty, or at another commit than a clean clone will have."""
    if tree.tracked is None:
        raise CannotCheck(f"git cannot say what it has: {tree.without_git}")
    for name, fetched in sorted(tree.modules.items()):
        if not fetched:
            yield Finding(
                name,
                "is a submodule that was not fetched",
                f"git submodule update --init --recursive -- {name}",
                "warning",  # many are for tests or other targets; a build that needs it says so
            )
        elif (here := _commit(tree, name)) not in ("", tree.recorded[name]):
            yield Finding(
                name,
                f"is at {here[:10]}; a clean clone gets {tree.recorded[name][:10]}",
                f"git submodule update -- {name}  # or git add {name}, and commit",
                "warning",  # it builds here; somebody may be about to commit it
            )


def _commit(tree: SourceTree, module: str) -> str:
    """The commit that a submodule is at; "" where git does not say, or its folder has no repository
    of its own."""
    folder = tree.root / module
    if not os.path.lexists(folder / ".git"):
        return ""
    try:
        return git.ask(folder, "rev-parse", "--verify", "HEAD").decode().strip()
    except git.GitError:
        return ""


def _renamed(tree: SourceTree, file: str, name: str) -> str:
    """A unit of the same path with another ending; "" if there is none."""
    stem = PurePosixPath(name).with_suffix("")
    found = [one for end in UNITS for one in resolve(tree, file, f"{stem}{end}")]
    return found[0] if found else ""


def _path(file: str, name: str) -> str:
    """A name in a build file as a path from the root."""
    return os.path.normpath(PurePosixPath(file).parent / name)


def resolve(tree: SourceTree, file: str, name: str) -> list[str]:
    """The files that a name in a build file may mean: a path from there, or from the root."""
    exact = [one for one in tree.ending(name) if one in (name, _path(file, name))]
    return exact or tree.ending(name)
