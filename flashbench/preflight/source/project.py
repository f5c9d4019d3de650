"""`[tool.flashbench.project]` can be used: its callable, path, sources and build command exist."""

import os
import shutil
from collections.abc import Iterator

from flashbench.errors import InvalidInputError
from flashbench.preflight.finding import CannotCheck, Finding
from flashbench.preflight.source.tree import SourceTree
from flashbench.revisions.project import TABLE, Project, parse


def project_settings(tree: SourceTree) -> Iterator[Finding]:
    """What the table names and the tree lacks, or the mistake for which it cannot be read."""
    file = tree.root / "pyproject.toml"
    if not os.path.lexists(file):
        raise CannotCheck(f"no pyproject.toml in {tree.root}")
    try:
        project = parse(file)
    except InvalidInputError as error:
        yield Finding("pyproject.toml", str(error).removeprefix(f"{file}: "), "mend it")
        return
    if project is None:
        raise CannotCheck(f"no {TABLE}")
    yield from _paths(tree, project)
    yield from _callable(tree, project)
    if project.build:
        program = project.build[0]
        here = (tree.root / program).exists()
        if program not in ("python", "python3") and not here and shutil.which(program) is None:
            yield Finding(
                f"pyproject.toml {TABLE} build",
                f"{program} is not on PATH",
                f"install {program}, or put its folder on PATH",
            )


def _paths(tree: SourceTree, project: Project) -> Iterator[Finding]:
    for name in project.sources:
        if not (tree.root / name).exists():
            yield Finding(
                f"pyproject.toml {TABLE} sources",
                f"{name} does not exist",
                f"remove it, or name the folder that decides the build: git ls-files | grep {name}",
            )


def _callable(tree: SourceTree, project: Project) -> Iterator[Finding]:
    """Modules in Python only: what the build makes is not there yet."""
    module = project.callable.partition(":")[0].replace(".", "/")
    root = tree.root / project.path
    top = module.partition("/")[0]
    if not (root / top).is_dir() or any(
        (root / f"{module}{end}").exists() for end in (".py", "/__init__.py")
    ):
        return
    made = list((root / module).parent.glob(f"{module.rpartition('/')[2]}.*"))
    if not made and not project.build:
        yield Finding(
            f"pyproject.toml {TABLE} callable",
            f"{project.callable}: no module {module}.py below {project.path}",
            f"git ls-files '*{module.rpartition('/')[2]}.py'  # and write the module that has it",
        )
