"""The files a build names all exist, and its submodules are fetched."""

import os
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from flashbench.builds.content import UNITS
from flashbench.preflight.finding import CannotCheck, Finding, Severity, in_short
from flashbench.preflight.fixes import edit, replace
from flashbench.preflight.source.absent_folders import absent_folders
from flashbench.preflight.source.cmake import base_of
from flashbench.preflight.source.compiled_units import build_of
from flashbench.preflight.source.conflicts import conflict_line
from flashbench.preflight.source.generated import generated, may_be_generated
from flashbench.preflight.source.headers import needed_folders, needed_modules
from flashbench.preflight.source.in_git import (
    absent_from_clone,
    found_in_git,
    how_to_get,
    outermost_untracked,
)
from flashbench.preflight.source.lines import line_of
from flashbench.preflight.source.listings import listed, unclear
from flashbench.preflight.source.lost import lost_folder, lost_folders
from flashbench.preflight.source.references import (
    broken_files,
    called_modules,
    references_of,
    settings_of,
)
from flashbench.preflight.source.removed import removed_files
from flashbench.preflight.source.setup_script import is_optional, why_unreadable
from flashbench.preflight.source.tree import SourceTree
from flashbench.revisions import git

_END = rf"(?:{'|'.join(map(re.escape, UNITS))})"
_QUOTED = re.compile(rf"[\"']([\w./-]*\w{_END})[\"']")
_ENDS_QUOTED = re.compile(rf"{_END}[\"']")  # quicker, where most files have none
# Calls that copy C++ units for another compiler before it compiles them.
_RENAMES = re.compile(r"\b(rename\w*|hipify\w*)\(")


def listed_but_missing(tree: SourceTree) -> Iterator[Finding | CannotCheck]:
    """Find a unit that setup.py, CMake or make names but that is missing or not in git, and a
    setup.py that Python cannot read."""
    yield from _broken(tree)
    project = settings_of(tree)
    folders = {os.path.normpath(one) for one in project.sources} if project else set[str]()
    # By revision and folder: each path, with its lister, the name written there and the place.
    removed = dict[tuple[str, str], list[tuple[str, str, str, str]]]()
    for file, name, line in listed(tree):
        found = resolve(tree, file, name)
        where = f"{file}:{line}"
        if conflict_line(tree, file):
            continue
        if not found:
            path = _path(tree, file, name)
            revision = removed_files(tree).get(path)
            moved = _renamed(tree, file, name) or _other_case(tree, path)
            if revision is None or moved or os.path.lexists(tree.root / path):
                yield from _not_found(tree, file, name, where)
            elif not lost_folder(tree, path):
                one = revision, path.rpartition("/")[0]
                removed.setdefault(one, []).append((path, file, name, where))
        elif outermost_untracked(tree, found[0]) in folders:
            continue  # named among the files that git lacks
        elif lacks := _all_absent(tree, found):
            what, fix = lacks
            yield Finding(where, f"lists {found[0]}, which {what}", fix)
    for path, file, name, line in _named_by_modules(tree):
        one = removed_files(tree)[path], path.rpartition("/")[0]
        removed.setdefault(one, []).append((path, file, name, f"{file}:{line}"))
    for (_, folder), those in removed.items():
        yield from _removed(tree, folder, those)
    for lost in lost_folders(tree):
        if lost.by == "units":
            what, fix = how_to_get(tree, lost.folder)
            said = f"compiles units of {lost.folder}: no such folder, {what}"
            yield Finding(lost.where, said, fix)
    yield from _folders_not_found(tree)
    if unknown := build_of(tree).unknown:
        yield CannotCheck(f"{unknown}: --level build compiles it")
    yield from in_short(list(unclear(tree)))


def _broken(tree: SourceTree) -> Iterator[Finding]:
    """Find a setup.py that Python cannot read, and files of the build that CMake cannot."""
    broken = broken_files(tree)
    script = why_unreadable(tree, "setup.py") if "setup.py" in tree.files else None
    if script is not None:
        broken = {"setup.py": script, **broken}
    for file, (line, reason) in broken.items():
        program = "Python" if file == "setup.py" else "CMake"
        if not conflict_line(tree, file):
            fix = edit(f"{file}:{line}", reason)
            yield Finding(f"{file}:{line}", f"{program} cannot read it: {reason}", fix)


def _folders_not_found(tree: SourceTree) -> Iterator[Finding]:
    """Report include directories that nothing makes: an error if a header is missing as a
    result."""
    needed = needed_folders(tree)
    for one in absent_folders(tree):
        if one.lost is not None and one.lost.by != "include directories":
            continue  # named with the settings, or with what the build reads or compiles
        found, fix = (
            f"includes from {one.name}: no such folder",
            edit(one.where, f"remove {one.name}"),
        )
        if one.lost is not None:
            what, restore = how_to_get(tree, one.lost.folder)
            found = f"{found}, {what}"
        user, include, meant = needed.get(one) or (None, None, "")
        if include is None:
            yield Finding(one.where, found, fix, "warning")
            continue
        found += f"; {user}:{include.line} needs {include.name}"
        if meant:
            found += f" of {meant}"
            file = one.where.rpartition(":")[0]
            text, base = tree.read(file).text, base_of(tree, file)
            fix = replace(text, one.where, one.name, os.path.relpath(meant, base))
        elif one.lost is not None:
            fix = restore
        else:
            fix = edit(one.where, f"name the folder that has {include.name}, or add it to git")
        yield Finding(one.where, found, fix)


def _not_found(tree: SourceTree, file: str, name: str, where: str) -> Iterator[Finding]:
    """Report a unit that git does not list, unless it belongs to a submodule, lies above the
    project or is written by the build."""
    path = _path(tree, file, name)
    if lost_folder(tree, path):
        return  # its folder is named
    if any(path.startswith(f"{module}/") for module in tree.modules):
        return  # a submodule's: fetched, or reported as missing
    if path not in removed_files(tree) and may_be_generated(tree, name, file):
        return
    if (tree.root / path).is_file():
        if lacks := absent_from_clone(tree, path):
            yield Finding(where, f"lists {path}, which {lacks[0]}", lacks[1])
        return
    kin, cased = _renamed(tree, file, name), _other_case(tree, path)
    if kin and _RENAMES.search(tree.read(file).text):
        return
    meant = found_in_git(tree, name)
    what, fix = how_to_get(tree, path if path in meant or not meant else meant[0])
    if kin or cased:
        what = f"{cased} differs in case alone" if cased else f"though {kin} is there"
        new = str(PurePosixPath(name).with_name(PurePosixPath(cased or kin).name))
        fix = replace(tree.read(file).text, where, name, new)
    yield Finding(
        where,
        f"lists {name}: no such file" + (f", {what}" if what else ""),
        fix,
        # hipify and the like rename before they compile
        "warning" if kin else _severity(tree, file),
    )


def _named_by_modules(tree: SourceTree) -> Iterator[tuple[str, str, str, int]]:
    """Removed units that modules which are called name in quotes, as those do that compile when
    they are called: the path, the module, the name and the line."""
    gone = {one.rpartition("/")[2] for one in removed_files(tree) if one.endswith(UNITS)}
    listing = {file for file, _, _ in listed(tree)}
    for file in called_modules(tree) if gone else ():
        text = tree.read(file).text
        names = file not in listing and _ENDS_QUOTED.search(text)
        for match in _QUOTED.finditer(text) if names else ():
            name = match[1]
            if name.rpartition("/")[2] not in gone or tree.ending(name) or generated(tree, name):
                continue
            line = line_of(text, match.start())
            path = next((one for one in found_in_git(tree, name) if one in removed_files(tree)), "")
            lost = not path or lost_folder(tree, path) or may_be_generated(tree, name, file)
            if not (lost or is_optional(text, line)):
                yield path, file, name, line


def _removed(
    tree: SourceTree, folder: str, those: list[tuple[str, str, str, str]]
) -> Iterator[Finding]:
    """Report what one commit removed of a folder, at the first place that lists one of them."""
    paths = list(dict.fromkeys(path for path, *_ in those))
    _, file, name, where = those[0]
    more = f" and {len(paths) - 1} more of {folder or 'the root'}" if paths[1:] else ""
    what, fix = how_to_get(tree, *paths)
    said = f"lists {name}{more}: no such file, {what}"
    yield Finding(where, said, fix, _severity(tree, file))


def _all_absent(tree: SourceTree, found: list[str]) -> tuple[str, str] | None:
    """Why a clean clone has none of the files a name may mean, and the fix for the first."""
    reasons = [absent_from_clone(tree, one) for one in found]
    return None if None in reasons else reasons[0]


def _severity(tree: SourceTree, file: str) -> Severity:
    """Report an error for a build file that decides the build: at the root, read by it, or a module
    that what is called imports."""
    at_root = PurePosixPath(file).parent == PurePosixPath()
    read = (one.file for one in references_of(tree) if not one.conditional)
    return "error" if at_root or file in called_modules(tree) or file in read else "warning"


def units_without_source(tree: SourceTree) -> str:
    """Name a unit that the build names but that cannot be read here; "" if there is none."""
    missing = (name for file, name, _ in listed(tree) if not resolve(tree, file, name))
    lost = (one.folder for one in lost_folders(tree) if one.by == "units")
    return next(iter((*missing, *links_to_nowhere(tree), *lost)), "")


def links_to_nowhere(tree: SourceTree) -> list[str]:
    """Links that patterns of the build find, and that lead to nothing."""
    gone = [one for one in (tree.tracked or ()) if one.endswith(UNITS) and one not in tree.files]
    links = [one for one in gone if (tree.root / one).is_symlink()]
    listing = {_path(tree, file, name) for file, name, _ in listed(tree)} if links else set()
    return sorted(one for one in links if one not in listing and build_of(tree).names(one))


def submodule_not_as_recorded(tree: SourceTree) -> Iterator[Finding]:
    """Find a submodule whose folder is empty, or at another commit than a clean clone gets."""
    if tree.tracked is None:
        raise CannotCheck(f"git cannot say what it has: {tree.without_git}")
    for name, fetched in sorted(tree.modules.items()):
        if not fetched:
            user = needed_modules(tree).get(name, "")
            yield Finding(
                name,
                f"is a submodule that was not fetched{user and f'; {user}'}",
                f"git submodule update --init --recursive -- {name}",
                # many serve tests or other targets
                "error" if user else "warning",
            )
        elif (here := _commit(tree, name)) not in ("", tree.recorded[name]):
            yield Finding(
                name,
                f"is at {here[:10]}; a clean clone gets {tree.recorded[name][:10]}",
                f"git submodule update -- {name}  # or git add {name}, and commit",
                "warning",  # it builds here; the user may be about to commit it
            )


def _commit(tree: SourceTree, module: str) -> str:
    """Commit a submodule is at; "" if git does not say, or its folder has no repository of its
    own."""
    folder = tree.root / module
    if not os.path.lexists(folder / ".git"):
        return ""
    try:
        return git.ask(folder, "rev-parse", "--verify", "HEAD").decode().strip()
    except git.GitError:
        return ""


def _renamed(tree: SourceTree, file: str, name: str) -> str:
    """Find a unit with the same path but another extension; "" if there is none."""
    stem = PurePosixPath(name).with_suffix("")
    found = [one for end in UNITS for one in resolve(tree, file, f"{stem}{end}")]
    return found[0] if found else ""


def _other_case(tree: SourceTree, path: str) -> str:
    """Find the unit whose path is this one but for the case of its name; "" if there is none."""
    folder, _, name = path.rpartition("/")
    units = (one for one in tree.units if one.rpartition("/")[0] == folder)
    return next((one for one in units if one.rpartition("/")[2].lower() == name.lower()), "")


def _path(tree: SourceTree, file: str, name: str) -> str:
    """Turn a name in a build file into a path from the root."""
    return os.path.normpath(base_of(tree, file) / name)


def resolve(tree: SourceTree, file: str, name: str) -> list[str]:
    """Find the files a name in a build file may mean, relative to that file or to the root."""
    exact = [one for one in tree.ending(name) if one in (name, _path(tree, file, name))]
    return exact or tree.ending(name)
