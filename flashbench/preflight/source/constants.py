"""A macro and a constant that share a name in one unit: the macro rewrites the declaration."""

import re
import shlex
from collections import defaultdict
from collections.abc import Iterator

from flashbench.preflight.finding import Finding
from flashbench.preflight.fixes import edit
from flashbench.preflight.source.cxx import SourceText
from flashbench.preflight.source.tree import SourceTree

# `constexpr int NAME = ...`, `static const auto NAME{...}`, with or without `__device__`.
# Bounded, so that matching takes linear time on any text.
_CONST = re.compile(r"\bconst(?:expr|init)?\b[\w\s:<>,*&]*[\s*&]\Z")
_VALUE = re.compile(r"\s*(?:\[[^\]\n]*\]\s*)*[={]")
_LONGEST = 200  # characters before the name
_ENUMERATION = re.compile(r"enum(?<=\benum)\b[^;{}()]{0,500}\{([^{}]*)\}")


def macro_against_constant(tree: SourceTree) -> Iterator[Finding]:
    """Find `#define WARP_SIZE 32` before `constexpr int WARP_SIZE` in what a unit sees.

    Files that test or remove the macro (`#ifndef`, `#undef`) know about it and are left alone.
    """
    files = tree.sources
    macros = {define.name for file in files for define in tree.read(file).defines}
    holders, constants = defaultdict[str, set[str]](set), dict[str, dict[str, int]]()
    for file in files:
        shared = macros & tree.read(file).words
        constants[file] = constants_of(tree, file, shared) if shared else {}
        for name in constants[file]:
            holders[name].add(file)
    reported = set()
    for unit in tree.units if holders else ():
        seen = tree.closure(unit)
        defined = {define.name for file in seen for define in tree.read(file).defines}
        names = {one for one in defined & holders.keys() if not holders[one].isdisjoint(seen)}
        for clash in _clashes(tree, unit, names, constants) if names else ():
            if clash not in reported:
                reported.add(clash)
                name, definer, line, kind, holder, constant = clash
                verb = "hides" if kind == "hidden" else "rewrites"
                yield Finding(
                    f"{definer}:{line}",
                    f"#define {name} {verb} the constant {name} of {holder}:{constant}",
                    _remove(tree, f"{definer}:{line}"),
                    "error" if kind == "rewritten" else "warning",
                )


def _remove(tree: SourceTree, where: str) -> str:
    """The command that removes a #define of one line."""
    file, _, line = where.rpartition(":")
    if tree.read(file).text.splitlines()[int(line) - 1].endswith("\\"):
        return edit(where, "remove the #define, and keep the constant")
    return f"sed -i {line}d {shlex.quote(file)}"


# Name; place of the macro; whether it rewrites the constant, may do so, or follows and hides it;
# place of the constant.
Clash = tuple[str, str, int, str, str, int]
Conditions = tuple[str, ...]


def _clashes(
    tree: SourceTree, unit: str, names: set[str], constants: dict[str, dict[str, int]]
) -> Iterator[Clash]:
    """Walk a unit as the preprocessor does, each file once, in line order."""
    active: dict[str, tuple[str, int, Conditions]] = {}
    declared: dict[str, tuple[str, int, Conditions]] = {}
    seen = set()

    def walk(file: str, under: Conditions) -> Iterator[Clash]:
        if file in seen:
            return
        seen.add(file)
        source = tree.read(file)
        for line, kind, name in _events(tree, file, constants.get(file, {})):
            conditions = under + source.conditions(line)
            if kind == "include":
                found = tree.resolve(file, name)
                if found is not None:
                    yield from walk(found, conditions)
            elif name not in names:
                continue
            elif kind == "define":
                active.setdefault(name, (file, line, conditions))
                if name in declared and name not in source.asked_for:
                    holder, at, when = declared[name]
                    if not _exclude(when, conditions) and _is_outer(tree.read(holder), name):
                        yield name, file, line, "hidden", holder, at
            elif kind == "undef":
                active.pop(name, None)
            elif name not in active:
                declared.setdefault(name, (file, line, conditions))
            elif name not in source.asked_for:
                definer, at, defined = active[name]
                if not _exclude(defined, conditions):
                    kind = "doubtful" if defined or conditions else "rewritten"
                    yield name, definer, at, kind, file, line

    yield from walk(unit, ())


def _is_outer(source: SourceText, name: str) -> bool:
    """Whether a constant is visible in the whole file: not a function's local, not a member."""
    return _declared(source.outer, name) >= 0


def _events(tree: SourceTree, file: str, constants: dict[str, int]) -> list[tuple[int, str, str]]:
    """Line, kind and name of what a file includes, defines and declares."""
    source = tree.read(file)
    events = [(include.line, "include", include.name) for include in source.includes]
    events += [(define.line, "define", define.name) for define in source.defines]
    events += [(line, "undef", name) for line, name in source.undefs]
    events += [(line, "constant", name) for name, line in constants.items()]
    return sorted(events)


def _exclude(first: Conditions, second: Conditions) -> bool:
    """Whether two places are alternatives of one condition, so that no build has both."""
    branches = dict(_branch(one) for one in first)
    return any(branches.get(asked, branch) != branch for asked, branch in map(_branch, second))


def _branch(condition: str) -> tuple[str, str]:
    """Split `ifdef A else` into the question and which answer it is."""
    match = re.fullmatch(r"(.*?)((?: (?:else|elif))*)", condition)
    assert match is not None
    asked, branch = match[1], match[2].strip()
    if asked.startswith("ifndef "):
        return "ifdef " + asked[7:], {"": "else", "else": ""}.get(branch, branch)
    return asked, branch


def _declared(text: str, name: str) -> int:
    """The place of a constant of this name, not of the macro after `f() const NAME {`; -1 if there
    is none."""
    at = text.find(name)
    while at >= 0:
        end = at + len(name)
        if _VALUE.match(text, end):
            const = _CONST.search(text, max(0, at - _LONGEST), at)
            has_type = const and re.search(r"\w", const[0].removeprefix("const"))
            if const and (has_type or not text[: const.start()].rstrip().endswith(")")):
                return at
        at = text.find(name, end)
    return -1


def constants_of(tree: SourceTree, file: str, macros: set[str]) -> dict[str, int]:
    """Constants of a file that share a name with a macro, each with its line."""
    source = tree.read(file)
    places = {name: _declared(source.plain, name) for name in macros}
    found = {name: source.line_of(at) for name, at in places.items() if at >= 0}
    for match in _ENUMERATION.finditer(source.plain):
        for name in re.finditer(r"([A-Za-z_]\w*)\s*(?:=[^,]*)?(?:,|\Z)", match[1].strip()):
            if name[1] in macros:
                found.setdefault(name[1], source.line_of(match.start()))
    return found
