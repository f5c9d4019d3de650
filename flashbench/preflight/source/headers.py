"""Every header that a source includes exists, and git has it."""

import os
import re
import shlex
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from pathlib import PurePosixPath

from flashbench.preflight.finding import CannotCheck, Finding, Severity, in_short
from flashbench.preflight.fixes import edit, replace
from flashbench.preflight.source.absent_folders import AbsentFolder, absent_folders, mistyped
from flashbench.preflight.source.compiled_units import build_of
from flashbench.preflight.source.computed_includes import computed_includes
from flashbench.preflight.source.cxx import Include
from flashbench.preflight.source.generated import generated, may_be_fetched
from flashbench.preflight.source.in_git import (
    absent_from_clone,
    found_in_git,
    gone_folder,
    had,
    how_to_get,
)
from flashbench.preflight.source.listings import listed
from flashbench.preflight.source.lost import lost_folder
from flashbench.preflight.source.others import installed, of_others
from flashbench.preflight.source.providers import own_names, provider
from flashbench.preflight.source.reach import unreached, unread_folders
from flashbench.preflight.source.removed import removed_files
from flashbench.preflight.source.search_path import SearchPath, search_path_of
from flashbench.preflight.source.tree import SourceTree
from flashbench.revisions import git

UNREAD = "; no unit of the build includes this file"


def missing_header(tree: SourceTree) -> Iterator[Finding | CannotCheck]:
    """Find an include that nothing satisfies: no file, no installed package, no generator.

    In angle brackets, with a folder that the tree lacks, it belongs to another project; in quotes
    only if a build file names one that may have it.
    """
    search, doubts = search_path_of(tree), list[str]()
    unanswered, below = list[tuple[str, Include]](), dict[str, list[tuple[str, Include]]]()
    for name in tree.sources:
        for include in tree.read(name).includes:
            if (folder := unreached(tree, name, include)) and not needed_folder(
                tree, name, include
            ):
                below.setdefault(folder, []).append((name, include))
                continue
            ours = _is_ours(tree, search, name, include)
            if ours is False or _answered(tree, search, name, include):
                continue
            if needed_folder(tree, name, include) is not None:
                continue  # its folder is named
            by = "" if ours else provider(tree, include.name)
            if ours is None and not include.quoted and "/" in include.name:
                by = by or "git had it, and a package may have it now"
            if by:
                where = f"{name}:{include.line}"
                doubts.append(f'{where}: "{include.name}" may come from elsewhere: {by}')
            else:
                unanswered.append((name, include))
    if not all(tree.modules.values()):
        lost = [
            (name, one)
            for name, one in unanswered
            if search.was_removed(name, one.name) and not may_be_fetched(tree, one.name)
        ]
        if more := sum(
            _absent_module(tree, name, one.name) not in needed_modules(tree)
            for name, one in unanswered
            if (name, one) not in lost
        ):
            yield CannotCheck(f"{more} includes may be in submodules that are not fetched")
        unanswered = lost
    for wanted, group in _by_header(tree, unanswered).items():
        if lost_folder(tree, wanted):
            continue  # its folder is named
        yield _missing(tree, wanted, group)
    for folder, those in below.items():
        if why := unread_folders(tree):
            file, one = those[0]
            doubts.append(f"{file}:{one.line}: which folder has {one.name} is unknown: {why}")
        else:
            yield _not_reached(tree, folder, those)
    yield from computed_includes(tree)
    yield from in_short(doubts)


def _not_reached(tree: SourceTree, folder: str, those: list[tuple[str, Include]]) -> Finding:
    """Report headers of a folder that is no include directory of the build."""
    name, include = those[0]
    others = len({file for file, _ in those}) - 1
    more = f"; {others} more file{'s need' if others > 1 else ' needs'} it" if others else ""
    at = next((f"{file}:{line}" for file, _, line in listed(tree)), build_of(tree).where(name))
    return Finding(
        f"{name}:{include.line}",
        f'#include "{include.name}": {folder} has it, which is no include directory of the build'
        + more,
        edit(at, f"add {folder} to the include directories"),
    )


@lru_cache(maxsize=1)
def needed_modules(tree: SourceTree) -> dict[str, str]:
    """Submodules that were not fetched and by whose path compiled files include headers, each with
    the first that does."""
    found = dict[str, str]()
    for name in () if all(tree.modules.values()) else tree.sources:
        for one in tree.read(name).includes:
            module = "" if one.conditional else _absent_module(tree, name, one.name)
            if module and build_of(tree).may_read(name):
                found.setdefault(module, f"{name}:{one.line} needs {one.name}")
    return found


def _absent_module(tree: SourceTree, includer: str, name: str) -> str:
    """The submodule that was not fetched and has a header by its path; "" if there is none."""
    absent = (one for one, fetched in tree.modules.items() if not fetched)
    named = [one for one in absent if f"{one.rpartition('/')[2]}/" in name]
    if not named:
        return ""
    beside, stated = PurePosixPath(includer).parent, search_path_of(tree).stated
    for one in named:
        inside = any(f"{folder}/".startswith(f"{one}/") for folder in stated)
        own = inside and not name.startswith("..")  # a folder of its own may have it
        folders = (".",) if own else (beside, ".", *stated)
        if any(os.path.normpath(f"{at}/{name}").startswith(f"{one}/") for at in folders):
            return one
    return ""


@lru_cache(maxsize=1)
def needed_folders(tree: SourceTree) -> dict[AbsentFolder, tuple[str, Include, str]]:
    """Absent include directories that a missing header would be in, each with an include
    of it, and the folder that was meant if it is mistyped."""
    found = dict[AbsentFolder, tuple[str, Include, str]]()
    for name in tree.sources if absent_folders(tree) else ():
        for include in tree.read(name).includes:
            if (one := needed_folder(tree, name, include)) is not None:
                found.setdefault(one[0], (name, include, one[1]))
    return found


def needed_folder(
    tree: SourceTree, includer: str, include: Include
) -> tuple[AbsentFolder, str] | None:
    """The absent include directory that should have a header, and the one that was meant."""
    folders, search = absent_folders(tree), search_path_of(tree)
    if not folders or include.conditional or not build_of(tree).may_read(includer):
        return None
    if _answered(tree, search, includer, include):
        return mistyped(tree, includer, include)
    if had(tree, include.name):
        lost = lost_header(tree, includer, include.name)
        return next(((one, "") for one in folders if one.lost and one.lost.had(lost)), None)
    never = [one for one in folders if one.lost is None]
    ours = include.quoted and _is_ours(tree, search, includer, include)
    return next(((one, "") for one in never if ours or one.is_named_by(include)), None)


def _by_header(
    tree: SourceTree, unanswered: list[tuple[str, Include]]
) -> dict[str, list[tuple[str, Include]]]:
    """Group includes by header: by the path that differs in case alone, or that git had, or by its
    folder if that is gone as a whole, else by its name."""
    groups: dict[str, list[tuple[str, Include]]] = defaultdict(list)
    for name, include in unanswered:
        wanted = _other_case(tree, include.name) or lost_header(tree, name, include.name)
        wanted = wanted or _plain(include.name)
        groups[gone_folder(tree, wanted) or wanted].append((name, include))
    return groups


def _missing(tree: SourceTree, wanted: str, group: list[tuple[str, Include]]) -> Finding:
    """Report a header once, at the first include that needs it."""
    read = build_of(tree).may_read
    name, include = min(group, key=lambda one: (not read(one[0]), one[1].conditional))
    kin = _other_case(tree, include.name)
    script = may_be_fetched(tree, include.name)
    others = len({file for file, _ in group} - {name})
    beside = os.path.normpath(PurePosixPath(name).parent / include.name)
    is_gone = had(tree, wanted) and not found_in_git(tree, wanted)
    what, fix = how_to_get(tree, wanted if had(tree, wanted) else beside)
    if kin:
        fix = _same_case(tree, kin, group)
    return Finding(
        f"{name}:{include.line}",
        f'#include "{include.name}": no such file'
        + (f", {what}" if what and not kin else "")
        + (f", with all of {wanted}" if is_gone else "")
        + (f"; {kin} differs in case alone" if kin else "")
        + (f"; {script} may fetch it" if script else "")
        + ("" if read(name) else UNREAD)
        + (f"; {others} more file{'s need' if others > 1 else ' needs'} it" if others else ""),
        fix,
        "warning" if include.conditional or script or not read(name) else "error",
    )


def _same_case(tree: SourceTree, kin: str, group: list[tuple[str, Include]]) -> str:
    """The command that gives a header the name by which all include it and git had it, or else
    mends each include."""
    meant = {f"{kin[: -len(one.name)]}{one.name}" for _, one in group}
    if len(group) > 1 and len(meant) == 1 and (old := meant.pop()) in removed_files(tree):
        paths = shlex.join([kin, old])
        return f"git mv {paths} && git commit -m 'Restore the name' -- {paths}"
    return " && ".join(
        replace(tree.read(file).text, f"{file}:{one.line}", one.name, kin[-len(one.name) :])
        for file, one in group
    )


def lost_header(tree: SourceTree, includer: str, name: str) -> str:
    """Find the file of git an include may mean: the one beside it, else the latest; "" if git had
    none."""
    found = found_in_git(tree, name)
    beside = os.path.normpath(PurePosixPath(includer).parent / name)
    return beside if beside in found else next(iter(found), "")


def _plain(name: str) -> str:
    return "/".join(part for part in PurePosixPath(name).parts if part not in (".", ".."))


def header_not_in_git(tree: SourceTree) -> Iterator[Finding]:
    """Find an include satisfied by a file that no clean clone of HEAD has."""
    if tree.tracked is None:
        raise CannotCheck(f"git cannot say what it has: {tree.without_git}")
    search, reported = search_path_of(tree), set()
    for name in tree.sources:
        for include in tree.read(name).includes:
            if name not in tree.tracked:
                continue
            found = _found(tree, search, name, include)
            if found is None or found in reported:
                continue
            if (lacks := _lacks(tree, name, found)) is not None:
                reported.add(found)
                what, fix = lacks
                severity: Severity = "error"
                if not any(build_of(tree).may_read(one) for one in _includers(tree, search, found)):
                    what, severity = what + UNREAD, "warning"
                yield Finding(f"{name}:{include.line}", f"{found} {what}", fix, severity)


def _includers(tree: SourceTree, search: SearchPath, found: str) -> Iterator[str]:
    """Files of git that include this header."""
    name = PurePosixPath(found).name
    for file in tree.sources:
        if file in (tree.tracked or ()) and any(
            one.name.endswith(name) and _found(tree, search, file, one) == found
            for one in tree.read(file).includes
        ):
            yield file


def _lacks(tree: SourceTree, includer: str, found: str) -> tuple[str, str] | None:
    """Say why a clean clone lacks a header, and the fix; None if it has the header."""
    lacks = absent_from_clone(tree, found)
    if lacks is None or tree.tracked is None or tree.committed is None:
        return None
    if found not in tree.tracked:
        return None if generated(tree, found) else lacks
    if found in tree.committed:
        return lacks
    # A new include is work in progress; one in HEAD's own text breaks HEAD.
    name = re.escape(PurePosixPath(found).name)
    included = re.compile(rf"#\s*include\s*[\"<].*{name}")
    if includer not in tree.committed or not included.search(_at_head(tree, includer)):
        return None
    what, fix = lacks
    return f"{what}, and HEAD includes it", fix


def _at_head(tree: SourceTree, name: str) -> str:
    try:
        return git.ask(tree.root, "cat-file", "blob", f"HEAD:./{name}").decode(errors="replace")
    except git.GitError:
        return ""  # a partial clone may lack it


def _is_ours(tree: SourceTree, search: SearchPath, includer: str, include: Include) -> bool | None:
    """Whether this project should have the header; None if its build files decide.

    It should if quoted without a folder; with one, or in angle brackets, if it has the folder, if
    git had the header where the compiler looks, or if the folder is named like what the build makes
    and the header lies elsewhere.
    """
    name = include.name
    if "." not in name or include.asked:
        return False  # <algorithm>, in quotes
    beside = includer if include.quoted else None
    removed = search.was_removed(beside, name)
    first, slash, _ = name.partition("/")
    inside = bool(slash) and first not in (".", "..")
    own = inside and first in own_names(tree)
    if of_others(name) and not (include.quoted and removed) and not own:
        return False
    if include.quoted and (not inside or removed or first in tree.directories):
        return True
    if inside and search.has_folder(beside, name):
        return True
    if own and (removed or tree.ending(PurePosixPath(name).name)):
        return True
    return None if (include.quoted or removed) and not include.conditional else False


def _answered(tree: SourceTree, search: SearchPath, includer: str, include: Include) -> bool:
    name = include.name
    if not include.quoted and search.was_removed(None, name):
        includer = ""  # what lies beside the includer is not looked at
    return (
        search.find(includer, name) is not None
        or tree.in_submodules(name)
        or installed(name)
        or bool(_found_ignored(tree, name) or search.find_ignored(name))
        or generated(tree, name)
    )


def _found(tree: SourceTree, search: SearchPath, includer: str, include: Include) -> str | None:
    """Find the file that satisfies an include; git may ignore it if it is ours."""
    found = search.find(includer, include.name) or search.find_ignored(include.name)
    if found is None and _is_ours(tree, search, includer, include):
        found = next(iter(_found_ignored(tree, include.name)), None)
    return found


def _found_ignored(tree: SourceTree, name: str) -> list[str]:
    if tree.tracked is None:
        return []
    wanted = tuple(part for part in PurePosixPath(name).parts if part not in (".", ".."))
    return [known for known in tree.ignored if PurePosixPath(known).parts[-len(wanted) :] == wanted]


def _other_case(tree: SourceTree, name: str) -> str:
    """Find the header whose path ends with this one but for case; "" if there is none."""
    end = "/".join(part for part in PurePosixPath(name).parts if part not in (".", ".."))
    for known in tree.headers:
        if f"/{known}".lower().endswith(f"/{end}".lower()) and not known.endswith(end):
            return known
    return ""
