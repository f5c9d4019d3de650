"""Every file that the build, the settings and the imports need is here and in a clean clone.

Headers, and units that a build file lists by name, have checks of their own.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import PurePosixPath

from flashbench.builds.content import HEADERS, UNITS
from flashbench.preflight.finding import CannotCheck, Finding, Severity, in_short
from flashbench.preflight.source.compiled_units import build_of
from flashbench.preflight.source.generated import may_be_generated
from flashbench.preflight.source.in_git import absent_from_clone, how_to_get, outermost_untracked
from flashbench.preflight.source.left_out import INSTANTIATES
from flashbench.preflight.source.listings import listed
from flashbench.preflight.source.lost import lost_folder, lost_folders
from flashbench.preflight.source.python_modules import lost_module, packages_of
from flashbench.preflight.source.references import (
    Reference,
    callable_of,
    called_modules,
    references_of,
    settings_of,
)
from flashbench.preflight.source.setup_script import is_optional
from flashbench.preflight.source.tree import SourceTree, is_test
from flashbench.preflight.source.units import links_to_nowhere, resolve
from flashbench.revisions.project import TABLE

_WRITES = re.compile(r"\.write\(|write_(?:text|bytes)\(|open\([^)\n]*['\"]w|>\s*[\"$\w./{]*\.")


def with_ignored_units(tree: SourceTree) -> SourceTree:
    """The tree with the units that git ignores and the build's patterns find."""
    named = build_of(tree).names
    ignored = [one for one in tree.ignored if one.endswith(UNITS) and named(one)]
    return replace(tree, files=tuple(sorted({*tree.files, *ignored}))) if ignored else tree


def file_not_in_git(tree: SourceTree) -> Iterator[Finding | CannotCheck]:
    """Find a file that the build or an import needs and that is missing, here or in a clone."""
    if tree.tracked is None:
        raise CannotCheck(f"git cannot say what it has: {tree.without_git}")
    reported: set[str] = set()
    for one in (*references_of(tree), *_of_settings(tree), *_imported(tree)):
        file = outermost_untracked(tree, one.file)
        if (lost := lost_folder(tree, file)) is not None:
            if lost.by != "references":
                continue  # named with the settings or the lists
            file = lost.folder
        if file in reported or (one.by and (one.by in reported or one.by not in tree.tracked)):
            continue
        if (finding := _finding(tree, replace(one, file=file))) is not None:
            reported.add(file)
            yield finding
    yield from _links_to_nowhere(tree)
    yield from _compiled(tree, reported)


def _finding(tree: SourceTree, one: Reference) -> Finding | None:
    """The finding for a file that is missing here or in a clean clone; None if it is in both."""
    severity: Severity = "warning" if one.conditional else "error"
    place = tree.root / one.file
    if place.is_dir():
        if any(name.startswith(f"{one.file}/") for name in tree.tracked or ()):
            return None
        if not any(name.startswith(f"{one.file}/") for name in tree.files):
            return None  # empty, or made by the build
    if place.exists():
        lacks = absent_from_clone(tree, one.file)
        return Finding(one.where, f"{one.file} {lacks[0]}", lacks[1], severity) if lacks else None
    if not one.by or _is_included(tree, one.file):
        return None  # the check of settings or of headers names it
    what, fix = how_to_get(tree, one.file)
    kind = "folder" if any(lost.folder == one.file for lost in lost_folders(tree)) else "file"
    return Finding(one.where, f"needs {one.file}: no such {kind}, {what}", fix, severity)


def _is_included(tree: SourceTree, file: str) -> bool:
    """Whether a unit or header includes a header of this name."""
    end = f"/{PurePosixPath(file).name}"
    return file.endswith(HEADERS) and any(
        f"/{one.name}".endswith(end)
        for source in tree.sources
        for one in tree.read(source).includes
    )


def _links_to_nowhere(tree: SourceTree) -> Iterator[Finding]:
    """Units of the build's patterns that are links and lead to nothing."""
    for unit in links_to_nowhere(tree):
        what, fix = how_to_get(tree, unit)
        yield Finding(build_of(tree).where(unit), f"compiles {unit}, {what}", fix)


def _of_settings(tree: SourceTree) -> Iterator[Reference]:
    """What `[tool.flashbench.project]` names and is here."""
    project = settings_of(tree)
    if project is None:
        return
    module = callable_of(tree, project)
    packages = (f"{folder}/__init__.py" for folder in PurePosixPath(module).parents)
    for file in (module, *packages):
        if (tree.root / file).is_file():
            yield Reference(f"pyproject.toml {TABLE} callable", "", file)
    for file in project.sources:
        yield Reference(f"pyproject.toml {TABLE} sources", "", file)


def _imported(tree: SourceTree) -> Iterator[Reference]:
    """Python modules that what is called imports, here or removed."""
    packages = packages_of(tree)
    for one, answer in (pair for pairs in called_modules(tree).values() for pair in pairs):
        file = answer
        if file and (file in (tree.committed or ()) or _is_written(tree, file)):
            continue
        if not file and (gone := lost_module(tree, one)) and packages.lacks(one):
            file = gone
        if file and not is_optional(tree.read(one.file).text, one.line):
            yield Reference(f"{one.file}:{one.line}", one.file, file)


def _is_written(tree: SourceTree, file: str) -> bool:
    """Whether a build file names a module that git ignores, as one that writes it does."""
    if file in tree.files:
        return False
    name = re.compile(rf"(?<![\w.]){re.escape(PurePosixPath(file).name)}(?!\w)")
    generated = file.endswith(("_pb2.py", "_pb2_grpc.py"))
    return generated or any(name.search(tree.read(one).text) for one in tree.build_files)


def _compiled(tree: SourceTree, reported: set[str]) -> Iterator[Finding | CannotCheck]:
    """Units that a pattern of the build finds here and in no clean clone: an error if what git has
    needs them."""
    build, doubts = build_of(tree), list[str]()
    local = [unit for unit in sorted(build.units) if (lacks := absent_from_clone(tree, unit))]
    by_name = {unit for file, name, _ in listed(tree) for unit in resolve(tree, file, name)}
    for unit in local if local else ():
        if unit in by_name or any(unit.startswith(f"{folder}/") for folder in reported):
            continue
        lacks = absent_from_clone(tree, unit)
        if lacks is None or build.where(unit).partition(":")[0] in reported:
            continue
        what, fix = lacks
        writer = _writer(tree, unit) if unit not in (tree.tracked or ()) else ""
        if writer:
            doubts.append(f"{unit} {what}; {writer} may write it")
            continue
        severity: Severity = "error"
        note = ""
        if not _is_needed(tree, unit, set(local)):
            severity, note = "warning", "; nothing in git needs it"
        found = f"compiles {unit}, which {what}{note}"
        yield Finding(build.where(unit), found, fix, severity)
    yield from in_short(doubts)


def _is_needed(tree: SourceTree, unit: str, local: set[str]) -> bool:
    """Whether a compiled file that git has names what only this unit defines, or it is the
    module's own."""
    source = tree.read(unit)
    names = {one.name for one in source.defined}
    names |= {match[1] for match in INSTANTIATES.finditer(source.code)}
    if source.binds:
        return True
    build = build_of(tree)
    in_git = [one for one in build.files if one not in local]
    elsewhere = {one.name for file in in_git for one in tree.read(file).defined}
    wanted = (names - elsewhere) | {match[1] for match in INSTANTIATES.finditer(source.code)}
    return any(not wanted.isdisjoint(tree.read(file).words) for file in in_git)


def _writer(tree: SourceTree, unit: str) -> str:
    """The script that may write a unit; "" if there is none."""
    scripts = _writers(tree, PurePosixPath(unit).suffix)
    if scripts or may_be_generated(tree, unit, ""):
        return next(iter(scripts), "a script")
    return ""


@lru_cache(maxsize=16)
def _writers(tree: SourceTree, suffix: str) -> tuple[str, ...]:
    """Scripts that write files, and name some with this suffix in quotes."""
    named = re.compile(rf"{re.escape(suffix)}['\"]")
    scripts = [one for one in tree.build_files if one.endswith((".py", ".sh")) and not is_test(one)]
    return tuple(
        one
        for one in scripts
        if PurePosixPath(one).name != "setup.py"
        and named.search(tree.read(one).text)
        and _WRITES.search(tree.read(one).text)
    )
