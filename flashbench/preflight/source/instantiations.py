"""Function templates are defined, instantiated or specialised for every type that is asked for."""

import re
from collections import defaultdict
from collections.abc import Iterator, Set
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from flashbench.builds.content import HEADERS, UNITS
from flashbench.preflight.finding import CannotCheck, Finding, in_short
from flashbench.preflight.fixes import edit, rename
from flashbench.preflight.source.compiled_units import build_of
from flashbench.preflight.source.cxx import split_arguments
from flashbench.preflight.source.dispatch import dispatched
from flashbench.preflight.source.generated import macro_with, written_by_a_generator
from flashbench.preflight.source.left_out import bring_back, removed_with
from flashbench.preflight.source.listings import add_to_build
from flashbench.preflight.source.removed import removed_files
from flashbench.preflight.source.symbols import named_causes
from flashbench.preflight.source.templates import (
    BRACKETS,
    Templates,
    Types,
    covers,
    kind_of,
    made_at,
    removed_makers,
    spelled,
    templates_of,
    types_in,
    types_of,
)
from flashbench.preflight.source.tree import SourceTree
from flashbench.preflight.source.units import units_without_source

_INCLUDED = (".tpp", ".ipp", ".tcc", ".txx", ".impl", ".def")  # included like headers
# Bounded, so that matching takes linear time on any text.
_CALL = re.compile(r"\s?<([^;{}()]{0,400})>\s*\(")
_WORD = re.compile(r"[A-Za-z_]\w*")
_SCOPES = [
    re.compile(rf"{kind}(?<=\b{kind})\b([\w\s:]{{1,200}})")
    for kind in ("namespace", "struct", "class")
]


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of a template. asked: the types, "" for one that the text leaves open; by: the macro
    that chooses them."""

    user: str
    line: int
    name: str
    asked: list[Types]
    by: str = ""


@dataclass(frozen=True, slots=True)
class _Lack:
    """What a call lacks. said: why; unit: where it should be; fix: "" to add it there; cause: what
    other calls lack, too: the unit or folder that has it, or the template's body."""

    call: _Call
    types: Types
    said: str
    unit: str = ""
    fix: str = ""
    cause: str = ""

    @property
    def asked(self) -> str:
        return _written(self.call.name, self.types)


def missing_instantiation(tree: SourceTree) -> Iterator[Finding | CannotCheck]:
    """Find a call of `launch<BFloat16>(...)` that nothing instantiates.

    The body of `launch` is in a unit that does not instantiate it, or only specialisations for
    other types exist. Types that the macro around a call chooses from count each. Types and values
    that the text leaves open (aliases, parameters, constants), and instantiations by macros, are
    left to the linker.
    """
    found = templates_of(tree)
    wanted = {name for name, counts in found.parameters.items() if len(counts) == 1}
    if not wanted:
        return
    if unread := units_without_source(tree):
        raise CannotCheck(f"{unread} may define anything")
    build, doubts, reported = build_of(tree), list[str](), set[tuple[str, Types]]()
    if build.unknown:
        yield CannotCheck(f"{build.unknown}, so that units left out are not seen")
    lacks = list[_Lack]()
    for user, seen in _users(tree, wanted):
        asked_for = wanted & tree.read(user).words
        for call in _calls(tree, user, {one for one in asked_for if _may_lack(tree, seen, one)}):
            for types in call.asked:
                if (call.name, types) in reported:
                    continue
                reported.add((call.name, types))
                lack = _lack(tree, call, types, seen)
                if isinstance(lack, str):
                    asked = _written(call.name, types)
                    doubts.append(f"{user}:{call.line}: {lack} may instantiate {asked}")
                elif lack is not None:
                    lacks.append(lack)
    named = named_causes(tree) if any(one.cause for one in lacks) else ()
    defects = (those for those in _defects(lacks) if those[0].cause not in named)
    yield from (_finding(tree, those) for those in defects)
    yield from in_short(doubts)


def _defects(lacks: list[_Lack]) -> list[list[_Lack]]:
    """What calls lack, by defect: by cause, or by call, or by the macro that asks for a type of all
    of them."""
    calls = defaultdict[tuple[str, ...], list[_Lack]](list)
    for one in lacks:
        at = one.call.user, str(one.call.line), one.call.name
        calls[(one.cause,) if one.cause else (*at, "" if one.unit else one.said)].append(one)
    found = defaultdict[tuple[object, ...], list[_Lack]](list)
    for key, those in calls.items():
        by, kinds = those[0].call.by, frozenset(kind_of(one.types) for one in those)
        alike = by and those[0].unit and not those[0].cause
        found[(by, kinds) if alike else key] += those
    return list(found.values())


def _users(tree: SourceTree, wanted: Set[str]) -> Iterator[tuple[str, Set[str]]]:
    """Compiled units that name a template, and headers that they include, each with the files that
    are seen there."""
    units = sorted(build_of(tree).files) or tree.units
    yield from ((unit, tree.closure(unit)) for unit in units if wanted & tree.read(unit).words)
    for file in sorted(one for one in tree.closure_of(units) if one.endswith(HEADERS)):
        if not any(
            _may_lack(tree, tree.closure(file), one) for one in wanted & tree.read(file).words
        ):
            continue
        seen = (tree.closure(unit) for unit in units if file in tree.closure(unit))
        yield file, set[str]().union(*seen)


def _finding(tree: SourceTree, lacks: list[_Lack]) -> Finding:
    """Report one defect at the first call that meets it."""
    one, more = lacks[0], len(lacks) - 1
    others = f" and {more} more like it" if more else ""
    found = f"calls {one.asked}{others}, which {one.said}"
    if len({(each.call.user, each.call.line) for each in lacks}) > 1 and one.call.by and one.unit:
        seen = tree.closure(one.call.user)
        of = next((f" of {file}" for file in seen if one.call.by in tree.read(file).bodies), "")
        found += f"; {one.call.by}{of} asks for {kind_of(one.types)}"
    return Finding(f"{one.call.user}:{one.call.line}", found, one.fix or _add(tree, lacks))


def _add(tree: SourceTree, lacks: list[_Lack]) -> str:
    """The command that opens the first unit which should have more."""
    units = defaultdict[str, list[str]](list)
    for one in lacks:
        units[one.unit].append(one.asked)
    first, *rest = units
    word = "template <> ..." if "specialises" in lacks[0].said else "template ..."
    texts, count = [f"`{word} {asked}(...);`" for asked in units[first][:3]], len(units[first])
    also = f" and {count - 3} more" if count > 3 else ""
    also += f"; others in {', '.join(rest)}" if rest else ""
    lines = tree.read(first).code.splitlines()
    name = re.compile(rf"\b{lacks[0].call.name}\b")
    at = max((at for at, line in enumerate(lines, 1) if name.search(line)), default=len(lines))
    return edit(f"{first}:{at}", f"add {', '.join(texts)}{also}")


def _written(name: str, types: Types) -> str:
    return f"{name}<{', '.join(one or '...' for one in types)}>"


def _may_lack(tree: SourceTree, seen: Set[str], name: str) -> bool:
    """Whether a call may lack something: not if it sees the body, or if nobody has one, and no unit
    that the build leaves out instantiates the template."""
    found = templates_of(tree)
    files = _holders(found, name)
    visible = bool(found.bodies[name]) and not seen.isdisjoint(files)
    left_out = any(build_of(tree).leaves_out(file) for file, _ in found.made[name])
    without = bool(found.declared[name]) and not files
    return bool(files and not visible) or bool(found.promised[name]) or left_out or without


def _lack(tree: SourceTree, call: _Call, types: Types, seen: Set[str]) -> _Lack | str | None:
    """What a call lacks; what may instantiate it, if text does not tell; None if nothing lacks."""
    found, build, name = templates_of(tree), build_of(tree), call.name
    (count,) = found.parameters[name]
    made = [one for one in found.made[name] if covers(one[1], types)]
    left_out = [file for file, _ in made if build.leaves_out(file)]
    files = sorted(_holders(found, name))
    if len(types) != count:
        return None
    if files and all(types) and len(left_out) < len(made):
        sure = any(all(one) or len(one) < count for _, one in made)  # not by an alias alone
        return None if sure or not seen.isdisjoint(files) else made[0][0]
    if not all(types):
        hidden = found.bodies[name] and seen.isdisjoint(files)
        return "only a compiler knows what" if hidden else None
    if left_out:
        unit = left_out[0]
        said = f"{unit} instantiates, and the build does not compile it"
        return _Lack(call, types, said, fix=add_to_build(tree, unit), cause=unit)
    if types in found.promised[name]:
        search = f"git log --all --oneline -S'{name}<'"
        said = "is declared as a specialisation and defined nowhere"
        lack = _Lack(call, types, said, fix=search)
    elif not files:
        if seen.isdisjoint(found.declared[name]):
            return None
        said, fix = _renamed(tree, name)
        fix = fix or f"git log --all --oneline -S'{name}('"
        said = f"is declared and has no body{said}"
        lack = _Lack(call, types, said, fix=fix, cause=f"{name}<>")
    elif found.bodies[name]:
        if not seen.isdisjoint(files) or seen.isdisjoint(found.declared[name]):
            return None
        if (unit := _implicitly(tree, name, types, files) or "") != "":
            return unit
        unit = _instantiating(tree, name, types, files)
        lack = _Lack(call, types, f"{unit} does not instantiate", unit)
    elif not set(files) <= set(tree.units):
        return None
    else:
        said = f"nothing specialises, as {files[0]} does for other types"
        lack = _Lack(call, types, said, files[0])
    if gone := _removed_maker(tree, name, types):
        cause, whole = removed_with(tree, gone)
        said = f"{gone} instantiated, which was removed{whole}"
        return _Lack(call, types, said, fix=bring_back(tree, gone), cause=cause)
    return found.may_make.get(name) or _may_be_elsewhere(tree, name) or lack


def _renamed(tree: SourceTree, name: str) -> tuple[str, str]:
    """The only body that nothing declares, of a template with as many parameters, to end a
    sentence, and the fix; "" if there is none."""
    found = templates_of(tree)
    (count,) = found.parameters[name]
    alike = [
        (other, file)
        for other, files in found.bodies.items()
        for file in files
        if found.parameters[other] == {count} and not found.declared[other]
        if found.made[other] or file in {one for one, _ in found.made[name]}
    ]
    if len({other for other, _ in alike}) != 1:
        return "", ""
    other, file = alike[0]
    return f"; {file} has that of {other}", rename(other, name, tree.naming(other))


def _removed_maker(tree: SourceTree, name: str, types: Types) -> str:
    """The last removed unit that instantiated a template for these types; "" if there is none, or
    if a unit that is here did so when it was removed, too."""
    removed = removed_makers(tree, name)
    if gone := next((file for file, made in removed if covers(made, types)), ""):
        commit = removed_files(tree)[gone].removesuffix("^") or "HEAD"
        units = [one for one in tree.units if one in (tree.committed or ())]
        if commit != "HEAD" and any(
            covers(one, types) for _, one in made_at(tree, units, commit, name)
        ):
            return ""
    return gone


def _instantiating(tree: SourceTree, name: str, types: Types, files: list[str]) -> str:
    """Find the unit that should instantiate a template: one whose name has a type, or one that does
    so for other types, or has its body."""
    build, made = build_of(tree), templates_of(tree).made[name]
    units = [file for file, _ in made if not build.leaves_out(file)]
    units += [unit for unit in tree.units if not tree.closure(unit).isdisjoint(files)]
    return max([*units, *files], key=lambda unit: sum(spelled(unit, one) for one in types))


def _implicitly(tree: SourceTree, name: str, types: Types, files: list[str]) -> str | None:
    """Find a unit that sees the body and calls the template, for these types or for some the text
    does not tell: it instantiates the template, unless the call is inlined."""
    use = re.compile(rf"\b{name}\s*(?:<([^;{{}}()]{{0,400}})>)?\s*[(),;]")
    for unit in tree.units:
        if tree.closure(unit).isdisjoint(files) or build_of(tree).leaves_out(unit):
            continue
        for file in tree.closure(unit):
            plain = tree.read(file).plain
            for match in use.finditer(plain) if name in plain else ():
                if "template" in _statement(plain, match.start()):
                    continue
                if match[1] is None or covers(types_in(tree, unit, match[1]), types):
                    return unit
    return None


def _holders(found: Templates, name: str) -> set[str]:
    """Files with its body or, if it has none, with its specialisations."""
    return found.bodies[name] or found.special[name]


def _may_be_elsewhere(tree: SourceTree, name: str) -> str:
    """Name what may define it instead: a macro, a generator, a submodule or an included file of
    another kind; "" if there is none."""
    if macro := macro_with(tree, name):
        return macro
    word = re.compile(rf"\b{name}\b")
    others = [file for file in tree.files if file.endswith(_INCLUDED)]
    others += [file for file in tree.of_modules if file.endswith((*UNITS, *HEADERS))]
    if not (all(tree.modules.values()) or templates_of(tree).bodies[name]):
        return "a submodule that was not fetched"
    if written_by_a_generator(tree, name):
        return "a script"
    return next((file for file in others if word.search(tree.read(file).text)), "")


def _calls(tree: SourceTree, user: str, wanted: set[str]) -> Iterator[_Call]:
    """Calls of templates in a unit, with all types that macros around them choose from."""
    source = tree.read(user)
    for place, name, match in _places(source.plain, wanted):
        before = _statement(source.plain, place)
        if "template" in before or before.endswith((".", "->")) or _is_of_others(tree, before):
            continue
        if user.endswith(HEADERS) and source.is_in_template(place):
            continue  # compiled if something calls that one
        asked, by = [types_of(match[1])], ""
        if not all(asked[0]) and (given := dispatched(tree, user, place)) is not None:
            texts = [one.strip() for one in split_arguments(match[1], BRACKETS)]
            by = next((given.by[one] for one in texts if one in given.by), "")
            chosen = product(*(given.texts.get(one, [one]) for one in texts))
            asked = [types_in(tree, user, ", ".join(one)) for one in chosen]
        yield _Call(user, source.line_of(place), name, asked, by)


def _places(plain: str, names: set[str]) -> list[tuple[int, str, re.Match[str]]]:
    """Where a text calls one of these names with arguments in angle brackets, in order."""
    found = list[tuple[int, str, re.Match[str]]]()
    for name in names:
        at = plain.find(name)
        while at >= 0:
            end = at + len(name)
            whole = not (plain[at - 1 : at].isalnum() or plain[at - 1 : at] == "_")
            if whole and (match := _CALL.match(plain, end)) is not None:
                found.append((at, name, match))
            at = plain.find(name, end)
    return sorted(found, key=lambda one: one[0])


def _statement(plain: str, place: int) -> str:
    """Text before a place, back to the last ";" or brace."""
    before = plain[max(0, place - 1000) : place]
    return before[max(before.rfind(sign) for sign in ";{}") + 1 :]


def _is_of_others(tree: SourceTree, before: str) -> bool:
    """Whether a name is qualified by a namespace or class the project does not declare."""
    scope = re.search(r"(\w+)\s*::\s*\Z", before)
    return scope is not None and scope[1] not in _scopes(tree)


@lru_cache(maxsize=1)
def _scopes(tree: SourceTree) -> frozenset[str]:
    """Names of all namespaces and classes."""
    found: set[str] = set()
    for file in tree.sources:
        for heading in (one for kind in _SCOPES for one in kind.findall(tree.read(file).plain)):
            found.update(_WORD.findall(heading))
    return frozenset(found)
