"""Folders that the build names and that are missing as a whole: one defect, whatever was inside."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Literal

from flashbench.preflight.source.cmake import base_of
from flashbench.preflight.source.compiled_units import named_units
from flashbench.preflight.source.listings import include_folders, is_build
from flashbench.preflight.source.references import references_of, settings_of
from flashbench.preflight.source.removed import removed_files
from flashbench.preflight.source.setup_script import ANY, STAR
from flashbench.preflight.source.tree import SourceTree

# Which check names the folder: that of the settings, of files that the build reads, or of lists.
By = Literal["settings", "references", "units", "include directories"]


@dataclass(frozen=True, slots=True)
class LostFolder:
    """A folder that git has or had and that is not here, or leads nowhere. where: what names it."""

    folder: str
    by: By
    where: str

    def had(self, file: str) -> bool:
        """Whether a file or folder was in it, or is it."""
        return f"{file}/".startswith(f"{self.folder}/")


@lru_cache(maxsize=1)
def lost_folders(tree: SourceTree) -> tuple[LostFolder, ...]:
    """Each once, by the first that names it."""
    found: dict[str, LostFolder] = {}
    for one in _named(tree):
        here = one.folder == "." or (tree.root / one.folder).exists()
        if not here and one.folder not in found and any(map(one.had, removed_files(tree))):
            found[one.folder] = one
    return tuple(found.values())


def lost_folder(tree: SourceTree, file: str) -> LostFolder | None:
    """The lost folder in which a file was."""
    return next((one for one in lost_folders(tree) if one.had(file)), None)


def _named(tree: SourceTree) -> Iterator[LostFolder]:
    project = settings_of(tree)
    for name in project.sources if project is not None else ():
        yield LostFolder(name, "settings", "pyproject.toml")
    for one in references_of(tree):
        if not one.conditional and not (tree.root / one.file).is_file():
            yield LostFolder(str(PurePosixPath(one.file).parent), "references", one.where)
    for file in filter(is_build, tree.build_files):
        for text, line in named_units(tree, file):
            folder = text.lstrip("/").rpartition("/")[0]
            for place in (
                _places(tree, file, folder) if folder and not {ANY, STAR} & set(folder) else ()
            ):
                yield LostFolder(place, "units", f"{file}:{line}" if line else file)
    for file, name, line in include_folders(tree):
        for place in _places(tree, file, name):
            yield LostFolder(place, "include directories", f"{file}:{line}")


def _places(tree: SourceTree, file: str, folder: str) -> tuple[str, ...]:
    return tuple(os.path.normpath(one / folder) for one in (base_of(tree, file), PurePosixPath()))
