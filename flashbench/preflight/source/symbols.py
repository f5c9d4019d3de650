"""Every function that compiled units call is defined in a unit the build compiles."""

import re
from collections import defaultdict
from collections.abc import Container, Iterator
from dataclasses import dataclass
from functools import lru_cache

from flashbench.builds.content import HEADERS, UNITS
from flashbench.preflight.finding import CannotCheck, Finding, Severity, in_short
from flashbench.preflight.fixes import edit, replace
from flashbench.preflight.source.compiled_units import build_of
from flashbench.preflight.source.functions import (
    Declaration,
    Definition,
    declared_places,
    is_in_scope,
    may_be_same,
    signature,
)
from flashbench.preflight.source.generated import macro_with, written_by_a_generator
from flashbench.preflight.source.left_out import bring_back, left_out_but_used, removed_with
from flashbench.preflight.source.listings import add_to_build
from flashbench.preflight.source.removed import removed_units
from flashbench.preflight.source.tree import SourceTree
from flashbench.preflight.source.units import units_without_source

_WORD = re.compile(r"[A-Za-z_]\w*")
# A macro's call that is open where the text ends.
_IN_MACRO = re.compile(r"\b([A-Z][A-Z0-9_]{2,})\s*\((?:[^;{}()]|\([^;{}()]*\)|\()*\Z")
# Folders of third-party code, whose libraries are linked.
_VENDORED = re.compile(
    r"(^|/)(third[_-]?party|3rd[_-]?party|external|extern|vendor(ed)?|deps|dependencies|contrib)/",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A declared function that no compiled unit defines. nearly: compiled definitions of its name
    that nothing declares as they are. renamed: the one definition that differs in its name alone,
    and that nothing declares."""

    file: str
    one: Declaration
    nearly: list[tuple[str, Definition]]
    left_out: list[str]
    renamed: tuple[str, Definition] | None

    @property
    def is_known(self) -> bool:
        """Whether a definition is known that may be meant."""
        return bool(self.nearly or self.left_out or self.renamed)


def bound_but_not_built(tree: SourceTree) -> Iterator[Finding | CannotCheck]:
    """Find a function that a binding or another compiled unit uses, but no compiled unit defines.

    Only the project's own functions count: libraries may define C functions and those of vendored
    headers. A use outside the bindings is reported only if the unit that should define the function
    is known: left out of the build, or removed.
    """
    yield from _found(tree)[0]


def named_causes(tree: SourceTree) -> frozenset[str]:
    """Units and folders, left out of the build or removed, that findings name."""
    return _found(tree)[1]


@lru_cache(maxsize=1)
def _found(tree: SourceTree) -> tuple[list[Finding | CannotCheck], frozenset[str]]:
    """What is found, and the names and causes that findings name."""
    reported = set[str]()
    return list(_search(tree, reported)), frozenset(reported)


def _search(tree: SourceTree, reported: set[str]) -> Iterator[Finding | CannotCheck]:
    build = build_of(tree)
    binding = [unit for unit in tree.units if tree.read(unit).binds]
    users = [*binding, *sorted(build.files - set(binding))]
    if not binding and not build.units:
        if tree.units:
            yield CannotCheck(
                "no unit is known to bind functions, and no build file says which are compiled: "
                "--level build links them"
            )
        return
    unread = units_without_source(tree)
    if unread:
        yield CannotCheck(f"{unread} may define anything")
        return
    if build.unknown:
        yield CannotCheck(f"{build.unknown}, so that units left out are not seen")
    doubts = list[str]()
    for wanted in _undefined(tree, users):
        name = wanted.one.name
        gone = _removed_holder(tree, wanted.one)
        known = wanted.left_out[0] if wanted.left_out else removed_with(tree, gone)[0]
        if reported & {name, known} or (wanted.one.of_library and not known):
            continue
        user = _user(tree, wanted, users if known or wanted.is_known else binding)
        if user is None:
            continue
        finding = _finding(tree, wanted, user, by_binding=user in binding)
        if finding is not None:
            reported.update({name, known} - {""})
            if isinstance(finding, Finding):
                yield finding
            else:
                doubts.append(finding)
    yield from in_short([*doubts, *left_out_but_used(tree, reported)])


def _finding(
    tree: SourceTree, wanted: _Wanted, user: str, *, by_binding: bool
) -> Finding | str | None:
    """Return the finding for an undefined function, the reason not to report it, or None."""
    name = wanted.one.name
    line = tree.read(wanted.file).line_of(wanted.one.place)
    where, calls = f"{wanted.file}:{line}", f"{user} calls {name}"
    if wanted.left_out:
        unit = wanted.left_out[0]
        found = f"{calls}: {unit} defines it, which the build does not compile"
        return Finding(where, found, add_to_build(tree, unit), _severity(tree, user, name))
    # A namesake in another scope says less than the unit that was removed.
    overloaded = any(is_in_scope(wanted.one, other) for _, other in wanted.nearly)
    gone = "" if overloaded else _removed_holder(tree, wanted.one)
    if (reason := _may_be_defined(tree, name, renamed=bool(wanted.renamed))) is not None:
        return f"{name}: {reason}" if by_binding else None
    if wanted.nearly and not gone:
        file, other = wanted.nearly[0]
        at = f"{file}:{tree.read(file).line_of(other.place)}"
        if is_in_scope(wanted.one, other):
            found = f"{calls}({_short(wanted.one)}): {at} defines it with ({_short(other)})"
        else:
            full = "::".join((*wanted.one.scope, name))
            found = f"{user} calls {full}: {at} defines {other.qualified}"
        return Finding(
            where, found, edit(at, f"declare the same as {where}"), _severity(tree, user, name)
        )
    if gone:
        found = f"{calls}: {gone} defined it, which was removed{removed_with(tree, gone)[1]}"
        fix = bring_back(tree, gone)
        return Finding(where, found, fix, _severity(tree, user, name))
    found = f"{calls}: no unit defines it"
    if wanted.renamed:
        file, other = wanted.renamed
        at = f"{file}:{tree.read(file).line_of(other.place)}"
        found += f"; {at} defines {other.name} with its parameters, which nothing declares"
        fix = replace(tree.read(file).text, at, other.name, name)
        return Finding(where, found, fix, _severity(tree, user, name))
    return Finding(where, found, f"git log --all --oneline -S'{name}('")


def _undefined(tree: SourceTree, users: list[str]) -> Iterator[_Wanted]:
    """Find functions that files of these units declare and no file of the build defines."""
    files = tree.closure_of(users)
    declared = {file: found for file in files if (found := _own(tree, file))}
    among = defaultdict[str, list[Declaration]](list)
    for found in declared.values():
        for one in found:
            among[one.name].append(one)
    holders = _holders(tree, set(among))
    build, headers = build_of(tree), set(tree.headers)
    undeclared = dict[tuple[str, ...], list[tuple[str, Definition]]]()
    for file, found in declared.items():
        for one in found:
            nearly, left_out, defined = [], [], False
            for holder, definition in holders.get(one.name, ()):
                fits = holder in headers or _fits(one, definition)
                if holder not in headers and build.leaves_out(holder):
                    if fits:
                        left_out.append(holder)
                elif fits:
                    defined = True
                    break
                elif "?" not in definition.qualifier and not any(
                    _fits(other, definition) for other in among.get(one.name, ())
                ):
                    nearly.append((holder, definition))
            if not defined:
                # Definitions in scope come first: a mismatched overload says more.
                nearly.sort(key=lambda pair: not is_in_scope(one, pair[1]))
                undeclared = undeclared or _undeclared(tree, among)
                alike = [
                    found
                    for found in undeclared.get(signature(one.parameters), ())
                    if is_in_scope(one, found[1]) and _is_named_once(tree, found[1].name)
                ]
                renamed = alike[0] if len(alike) == 1 else None
                yield _Wanted(file, one, nearly, left_out, renamed)


def _fits(declared: Declaration, defined: Definition) -> bool:
    in_scope = is_in_scope(declared, defined)
    return in_scope and may_be_same(declared.parameters, defined.parameters)


def _undeclared(
    tree: SourceTree, declared: Container[str]
) -> dict[tuple[str, ...], list[tuple[str, Definition]]]:
    """Functions that compiled units define and nothing declares, by their parameters."""
    found = defaultdict[tuple[str, ...], list[tuple[str, Definition]]](list)
    for unit in sorted(build_of(tree).files):
        for one in tree.read(unit).defined:
            if one.name not in declared and one.parameters.strip() and "?" not in one.qualifier:
                found[signature(one.parameters)].append((unit, one))
    return found


def _is_named_once(tree: SourceTree, name: str) -> bool:
    """Whether nothing calls a function."""
    uses = re.compile(rf"\b{name}\b")
    return sum(len(uses.findall(tree.read(file).plain)) for file in tree.naming(name)) == 1


def _holders(tree: SourceTree, names: set[str]) -> dict[str, list[tuple[str, Definition]]]:
    holders: dict[str, list[tuple[str, Definition]]] = defaultdict(list)
    for file in tree.sources if names else ():
        if names.isdisjoint(tree.read(file).words):
            continue
        for one in tree.read(file).defined:
            if one.name in names:
                holders[one.name].append((file, one))
    return holders


def _own(tree: SourceTree, file: str) -> list[Declaration]:
    """Declarations in a file that are C++ and this project's own."""
    vendored = _VENDORED.search(file) is not None or file.endswith(".c")
    ours = tree.tracked is None or file in tree.tracked
    return tree.read(file).declared if ours and not vendored else []


def _user(tree: SourceTree, wanted: _Wanted, users: list[str]) -> str | None:
    """The first unit that uses the function and sees its declaration, else a header of one, if it
    is known which definition counts: nothing may call what the header defines."""
    name = wanted.one.name
    headers = (one for one in tree.naming(name) if one.endswith(HEADERS) and wanted.is_known)
    for file in (*users, *headers):
        source = tree.read(file)
        if name not in source.words or not (
            wanted.file in tree.closure(file)
            or (file.endswith(HEADERS) and {file, wanted.file} <= tree.closure_of(users))
        ):
            continue
        # Declaring the name, or defining a namesake, is no use of it.
        places = {one.place for one in _own(tree, file) if one.name == name}
        places |= {one.place for one in source.defined if one.name == name}
        for found in re.finditer(rf"(?<![.\w])(?<!->){name}\b", source.plain):
            at = found.start()
            if at not in places and not (file.endswith(HEADERS) and source.is_in_template(at)):
                return file
    return None


def _severity(tree: SourceTree, user: str, name: str) -> Severity:
    """Return "warning" if a macro may leave out every use."""
    plain = tree.read(user).plain
    macros = set()
    for use in re.finditer(rf"\b{name}\b", plain):
        if (macro := _IN_MACRO.search(plain[max(0, use.start() - 300) : use.start()])) is None:
            return "error"
        macros.add(macro[1])
    # A macro that also takes functions the build defines is not empty.
    given = set()
    for call in re.finditer(rf"\b(?:{'|'.join(macros)})\s*\(([^;{{}}]*?)\)", plain):
        given.update(_WORD.findall(call[1]))
    holders = _holders(tree, given - {name})
    files = build_of(tree).files - {user}
    there = any(file in files for found in holders.values() for file, _ in found)
    return "error" if there else "warning"


def _removed_holder(tree: SourceTree, one: Declaration) -> str:
    """Find the removed unit that defined a function; "" if there is none."""
    found = _removed_definitions(tree).get(one.name, ())
    return next((file for file, other in found if is_in_scope(one, other)), "")


@lru_cache(maxsize=1)
def _removed_definitions(tree: SourceTree) -> dict[str, list[tuple[str, Definition]]]:
    """Definitions in removed units, by name, latest removal first."""
    found: dict[str, list[tuple[str, Definition]]] = defaultdict(list)
    for file, source in removed_units(tree).items():
        for one in source.defined:
            found[one.name].append((file, one))
    return found


def _short(one: Declaration | Definition) -> str:
    text = " ".join(one.parameters.split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def _may_be_defined(tree: SourceTree, name: str, *, renamed: bool) -> str | None:
    """Say what besides a plain definition may define a function: a macro, a script, a submodule, or
    a mention outside of bodies that is not a declaration. renamed: a definition is known that
    differs in its name alone, so that no submodule has it."""
    word = re.compile(rf"\b{name}\b")
    for file in tree.naming(name):
        source = tree.read(file)
        known = declared_places(source) | {found.place for found in source.defined}
        if any(found.start() not in known for found in word.finditer(source.outer)):
            return f"{file} may define it in a way that text does not tell"
    if not (renamed or all(tree.modules.values())):
        return "a submodule that was not fetched may define it"
    for module in tree.modules:
        for file in tree.of_modules:
            ours = file.startswith(f"{module}/") and file.endswith(UNITS)
            if ours and word.search(tree.read(file).text):
                return f"{file} may define it"
    pasted = (f"a macro of {file}" for file, one in _all_pasted(tree) if one.fullmatch(name))
    if macro := next(pasted, "") or macro_with(tree, name):
        return f"{macro} may define it"
    return "a script may write it" if written_by_a_generator(tree, name) else None


@lru_cache(maxsize=1)
def _all_pasted(tree: SourceTree) -> list[tuple[str, "re.Pattern[str]"]]:
    """The names that macros may paste, each with the file."""
    files = tree.sources
    return [(file, one) for file in files for one in _pasted(tree.read(file).macros)]


def _pasted(macros: str) -> tuple[re.Pattern[str], ...]:
    """Names that macros can make with `##`; a parameter may be anything."""
    found = set()
    for line in macros.split("\n") if "##" in macros else ():
        heading = re.match(r"\w+(?:\(([^)]*)\))?", line)
        parameters = {"__VA_ARGS__", *re.findall(r"\w+", heading[1] or "" if heading else "")}
        for chain in re.findall(r"\w+(?:\s*##\s*\w+)+", line):
            parts = re.split(r"\s*##\s*", chain)
            found.add("".join(r"\w*" if part in parameters else part for part in parts))
    return tuple(map(re.compile, found))
