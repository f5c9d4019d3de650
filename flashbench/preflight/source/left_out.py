"""What compiled files use of units that the build leaves out, where only a compiler can decide."""

import re
from collections.abc import Iterable, Iterator

from flashbench.builds.content import UNITS
from flashbench.preflight.source.compiled_units import build_of
from flashbench.preflight.source.in_git import gone_folder, how_to_get
from flashbench.preflight.source.listings import add_to_build
from flashbench.preflight.source.removed import removed_files
from flashbench.preflight.source.tree import SourceTree

INSTANTIATES = re.compile(r"\btemplate\s+(?!<)[\w:<>,&*\s]*?\b(\w+)\s*[<(]")
_REST = re.compile(r"[^;{}]*")


def bring_back(tree: SourceTree, unit: str) -> str:
    """The command that restores a removed unit, with its folder if that is gone, and lets the build
    compile it again."""
    folder = removed_with(tree, unit)[0]
    units = [one for one in _units_of(tree, folder, unit) if not build_of(tree).names(one)]
    added = (add_to_build(tree, one) for one in units)
    return " && ".join([how_to_get(tree, folder)[1], *added])


def removed_with(tree: SourceTree, unit: str) -> tuple[str, str]:
    """The outermost folder that was removed with a unit, else the unit; what to say of it."""
    if not (folder := gone_folder(tree, unit)):
        return unit, ""
    count = len(_units_of(tree, folder, unit))
    return folder, f" with all of {folder}, {count} unit{'s' if count > 1 else ''}"


def _units_of(tree: SourceTree, folder: str, unit: str) -> list[str]:
    """The units that were removed with one, of its folder."""
    removed = removed_files(tree)
    those = (one for one, at in removed.items() if at == removed[unit] and one.endswith(UNITS))
    return [one for one in those if one == unit or one.startswith(f"{folder}/")]


def left_out_but_used(tree: SourceTree, reported: Iterable[str]) -> Iterator[str]:
    """Name units left out of the build that define a class's member, or instantiate a template,
    which compiled files call with deduced or dispatched types; skip those already reported."""
    build = build_of(tree)
    left_out = [unit for unit in tree.units if unit not in reported and build.leaves_out(unit)]
    compiled = tree.closure_of(build.files) if left_out else ()
    words = frozenset[str]().union(*(tree.read(file).words for file in compiled))
    made = {one.qualified for file in compiled for one in tree.read(file).defined}
    made |= {text for file in compiled for _, text in _instantiated(tree, file)}
    for unit in left_out:
        members = (
            one.name
            for one in tree.read(unit).defined
            if one.qualifier
            and one.qualified not in made
            and words.issuperset((one.name, one.qualifier[-1]))
            and _calls_member(tree, compiled, one.name)
        )
        templates = (
            name for name, text in _instantiated(tree, unit) if name in words and text not in made
        )
        if name := next(members, "") or next(templates, ""):
            yield f"{unit} defines {name}, which compiled files use, and the build leaves it out"


def _instantiated(tree: SourceTree, file: str) -> Iterator[tuple[str, str]]:
    """Templates that a file instantiates explicitly: the name, and the text without namespaces."""
    plain = tree.read(file).plain
    for match in INSTANTIATES.finditer(plain) if "template" in plain else ():
        rest = _REST.match(plain, match.end())
        text = f"{match[0]}{rest[0] if rest else ''}"
        yield match[1], re.sub(r"\w+\s*::|\s", "", text)


def _calls_member(tree: SourceTree, files: Iterable[str], name: str) -> bool:
    call = re.compile(rf"(?:\.|->|::)\s*{name}\s*\(")
    return any(call.search(tree.read(file).plain) for file in files)
