"""Function templates are defined, instantiated or specialised for every type units ask for."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product

from flashbench.builds.content import HEADERS, UNITS
from flashbench.builds.missing_symbol import last_angled
from flashbench.preflight.finding import CannotCheck, Finding, in_short
from flashbench.preflight.fixes import edit
from flashbench.preflight.source.aliases import resolved
from flashbench.preflight.source.compiled import build_of
from flashbench.preflight.source.cxx import SourceText, split_arguments
from flashbench.preflight.source.dispatch import dispatched
from flashbench.preflight.source.functions import functions_of, macro_with
from flashbench.preflight.source.generated import written_by_a_generator
from flashbench.preflight.source.left_out import bring_back
from flashbench.preflight.source.listings import add_to_build
from flashbench.preflight.source.removed import removed_units
from flashbench.preflight.source.tree import SourceTree
from flashbench.preflight.source.units import units_without_source

_INCLUDED = (".tpp", ".ipp", ".tcc", ".txx", ".impl", ".def")  # included like headers
# Bounded, so that matching takes linear time on any text.
_HEADING = re.compile(r"template(?<=\btemplate)\b([^;{}]{0,4000}+)([;{])")
_CALL = re.compile(r"<(?:(?<=\w<)|(?<=\w\s<))([^;{}()]{0,400})>\s*\(")
_ANGLE = re.compile(r"<|(?<!-)>")
_NAME_BEFORE = re.compile(r"\s*(\w*[A-Za-z_])\b")  # read backwards
_WORD = re.compile(r"[A-Za-z_]\w*")
_INTEGER = re.compile(r"(\d+|0[xX][\da-fA-F]+)[uUlL]*")
_SCOPES = [
    re.compile(rf"{kind}(?<=\b{kind})\b([\w\s:]{{1,200}})")
    for kind in ("namespace", "struct", "class")
]
_BRACKETS = "<([", ">)]"
# Types whose names need no resolving, one name for each.
_TYPES = {
    name: names.split()[0]
    for names in (
        "float float32_t",
        "double float64_t",
        "bool",
        "char",
        "int int32_t",
        "int8_t",
        "uint8_t",
        "int16_t short",
        "uint16_t",
        "uint32_t unsigned",
        "int64_t long",
        "uint64_t size_t",
        "bf16 bfloat16 nv_bfloat16 __nv_bfloat16 bhalf bfloat16_t BFloat16",
        "fp16 half __half half_t Half float16",
        "complex<float>",
        "complex<double>",
        "Float8_e4m3fn",
        "Float8_e5m2",
        "true",
        "false",
    )
    for name in names.split()
}


Types = tuple[str, ...]


@dataclass
class _Templates:
    """Function templates of a project, by name."""

    parameters: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    declared: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    bodies: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # the files
    # Instantiations and specialisations with a body, each with its file.
    made: dict[str, list[tuple[str, Types]]] = field(default_factory=lambda: defaultdict(list))
    # `template <> ... name<T>(...)`: the files of those with a body, the types of those without.
    special: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    promised: dict[str, set[Types]] = field(default_factory=lambda: defaultdict(set))
    # Instantiated for deduced types; with the file.
    may_make: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of a template: the types it asks for, "" for one that the text leaves open."""

    name: str
    line: int
    asked: list[Types]


def missing_instantiation(tree: SourceTree) -> Iterator[Finding | CannotCheck]:
    """Find a call of `launch<BFloat16>(...)` that nothing instantiates.

    The body of `launch` is in a unit that does not instantiate it, or only specialisations for
    other types exist. Types that the macro around a call chooses from count each. Types and values
    that the text leaves open (aliases, parameters, constants), and instantiations by macros, are
    left to the linker.
    """
    found = _templates(tree)
    wanted = {name for name, counts in found.parameters.items() if len(counts) == 1}
    if not wanted:
        return
    if unread := units_without_source(tree):
        raise CannotCheck(f"{unread} may define anything")
    build, doubts, reported = build_of(tree), list[str](), set[tuple[str, Types]]()
    if build.unknown:
        yield CannotCheck(f"{build.unknown}, so that units left out are not seen")
    for user in sorted(build.files) or tree.units:
        asked_for = wanted & functions_of(tree).words(user)
        for call in _calls(
            tree, user, {one for one in asked_for if _may_lack(tree, found, user, one)}
        ):
            lacking = dict[str, list[tuple[str, str]]]()  # what is said, with call and fix of each
            for types in call.asked:
                if (call.name, types) in reported:
                    continue
                reported.add((call.name, types))
                asked = f"{call.name}<{', '.join(one or '...' for one in types)}>"
                lack = _lack(tree, found, user, call.name, types)
                if isinstance(lack, str):
                    doubts.append(f"{user}:{call.line}: {lack} may instantiate {asked}")
                elif lack is not None:
                    said, fix = lack
                    lacking.setdefault(said, []).append((asked, fix.replace("%", asked)))
            for said, those in lacking.items():
                (asked, fix), more = those[0], len(those) - 1
                others = f" and {more} more like it" if more else ""
                yield Finding(f"{user}:{call.line}", f"calls {asked}{others}, which {said}", fix)
    yield from in_short(doubts)


def _may_lack(tree: SourceTree, found: _Templates, user: str, name: str) -> bool:
    """Whether a call in a unit may lack something: not if it sees the body, or if nobody has one,
    and no unit that the build leaves out instantiates the template."""
    files = _holders(found, name)
    seen = bool(found.bodies[name]) and not tree.closure(user).isdisjoint(files)
    left_out = any(build_of(tree).leaves_out(file) for file, _ in found.made[name])
    return bool(files and not seen) or bool(found.promised[name]) or left_out


def _lack(
    tree: SourceTree, found: _Templates, user: str, name: str, types: Types
) -> tuple[str, str] | str | None:
    """What a call lacks, and the fix with % for the call; else what may instantiate it, if text
    does not tell; None if nothing is missing."""
    (count,), build, seen = found.parameters[name], build_of(tree), tree.closure(user)
    made = [one for one in found.made[name] if _covers(one[1], types)]
    left_out = [file for file, _ in made if build.leaves_out(file)]
    files = sorted(_holders(found, name))
    if len(types) != count:
        return None
    if all(types) and len(left_out) < len(made):
        sure = any(all(one) or len(one) < count for _, one in made)  # not by an alias alone
        return None if sure or not seen.isdisjoint(files) else made[0][0]
    if not all(types):
        hidden = found.bodies[name] and seen.isdisjoint(files)
        return "only a compiler knows what" if hidden else None
    if left_out:
        said = f"{left_out[0]} instantiates, and the build does not compile it"
        return said, add_to_build(tree, left_out[0])
    if types in found.promised[name]:
        said = "is declared as a specialisation and defined nowhere"
        fix = f"git log --all --oneline -S'{name}<'"
    elif not files:
        return None
    elif found.bodies[name]:
        if not seen.isdisjoint(files) or seen.isdisjoint(found.declared[name]):
            return None
        if (unit := _implicitly(tree, name, types, files)) is not None:
            return unit
        unit = _instantiating(tree, found, name, files)
        said = f"{unit} does not instantiate"
        fix = edit(_place(tree, unit, name), "add `template ... %(...);`")
    elif not set(files) <= set(tree.units):
        return None
    else:
        said = f"nothing specialises, as {files[0]} does for other types"
        fix = edit(_place(tree, files[0], name), "add `template <> ... %(...)`")
    removed = _removed_makers(tree).made[name]
    if gone := next((file for file, made in removed if _covers(made, types)), ""):
        return f"{gone} instantiated, which was removed", bring_back(tree, gone)
    return found.may_make.get(name) or _may_be_elsewhere(tree, name) or (said, fix)


def _place(tree: SourceTree, unit: str, name: str) -> str:
    """The last line of a unit that names a template."""
    lines = tree.read(unit).code.splitlines()
    word = re.compile(rf"\b{name}\b")
    last = max((at for at, line in enumerate(lines, 1) if word.search(line)), default=len(lines))
    return f"{unit}:{last}"


def _instantiating(tree: SourceTree, found: _Templates, name: str, files: list[str]) -> str:
    """Find the unit that should instantiate a template: one that does so for other types, or has
    its body."""
    build = build_of(tree)
    made = [file for file, _ in found.made[name] if not build.leaves_out(file)]
    seeing = [unit for unit in tree.units if not tree.closure(unit).isdisjoint(files)]
    return next(iter([*made, *seeing, *files]))


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
                if match[1] is None or _covers(_types_in(tree, unit, match[1]), types):
                    return unit
    return None


def _holders(found: _Templates, name: str) -> set[str]:
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
    if not all(tree.modules.values()):
        return "a submodule that was not fetched"
    if written_by_a_generator(tree, name):
        return "a script"
    return next((file for file in others if word.search(tree.read(file).text)), "")


def _templates(tree: SourceTree) -> _Templates:
    return _of_files(((file, tree.read(file)) for file in (*tree.units, *tree.headers)), tree)


@lru_cache(maxsize=1)
def _removed_makers(tree: SourceTree) -> _Templates:
    return _of_files(removed_units(tree).items())


def _of_files(
    sources: Iterable[tuple[str, SourceText]], tree: SourceTree | None = None
) -> _Templates:
    """Collect the templates, reading each file once. tree: resolves the files' aliases."""
    found = _Templates()
    for file, source in sources:
        plain = source.plain
        for match in _HEADING.finditer(plain):
            if not plain.endswith(("extern ", "extern\n"), 0, match.start()):
                _add(found, file, match[1].strip(), match[2], tree)
    return found


def _add(found: _Templates, file: str, heading: str, end: str, tree: SourceTree | None) -> None:
    """Record `<typename T> void name(...)`, followed by ";" or "{", or `void name<T>(...)`."""
    is_special = heading.startswith("<")
    parameters, heading = _angled(heading)
    before = heading.partition("(")[0].rstrip()
    if before == heading:
        return  # a class
    arguments = None
    if before.endswith(">"):
        before, arguments = last_angled(before)
    words = re.search(r"[\s*&>:]([A-Za-z_]\w*)\Z", before)
    if words is None:
        return
    name = words[1]
    if not parameters:  # an instantiation or a specialisation
        if arguments is None:
            found.may_make[name] = file
        elif is_special and end == ";":
            found.promised[name].add(_types_in(tree, file, arguments))
        else:
            found.made[name].append((file, _types_in(tree, file, arguments)))
            if is_special:
                found.special[name].add(file)
    elif arguments is None:
        if "..." in parameters:
            found.may_make[name] = file
        found.parameters[name].add(len(split_arguments(parameters, _BRACKETS)))
        (found.bodies if end == "{" else found.declared)[name].add(file)


def _angled(text: str) -> tuple[str, str]:
    """Split `<a, b> rest` into what the brackets hold and the rest; plain text is all rest."""
    if not text.startswith("<"):
        return "", text
    depth = 0
    for match in _ANGLE.finditer(text):
        place = match.start()
        depth += 1 if match[0] == "<" else -1
        if depth == 0:
            return text[1:place].strip(), text[place + 1 :].strip()
    return "", ""


def _calls(tree: SourceTree, user: str, wanted: set[str]) -> Iterator[_Call]:
    """Calls of templates in a unit, with all types that macros around them choose from."""
    source = tree.read(user)
    for match in _CALL.finditer(source.plain):
        place = match.start()
        named = _NAME_BEFORE.match(source.plain[max(0, place - 80) : place][::-1])
        if named is None or (name := named[1][::-1]) not in wanted:
            continue
        place -= named.end()
        before = _statement(source.plain, place)
        if "template" in before or before.endswith((".", "->")) or _is_foreign(tree, before):
            continue
        asked = [_types(match[1])]
        if not all(asked[0]) and (given := dispatched(tree, user, place)) is not None:
            texts = [one.strip() for one in split_arguments(match[1], _BRACKETS)]
            chosen = product(*(given.get(one, [one]) for one in texts))
            asked = [_types_in(tree, user, ", ".join(one)) for one in chosen]
        yield _Call(name, source.line_of(place), asked)


def _statement(plain: str, place: int) -> str:
    """Text before a place, back to the last ";" or brace."""
    before = plain[max(0, place - 1000) : place]
    return before[max(before.rfind(sign) for sign in ";{}") + 1 :]


def _is_foreign(tree: SourceTree, before: str) -> bool:
    """Whether a name is qualified by a namespace or class the project does not declare."""
    scope = re.search(r"(\w+)\s*::\s*\Z", before)
    return scope is not None and scope[1] not in _scopes(tree)


@lru_cache(maxsize=1)
def _scopes(tree: SourceTree) -> frozenset[str]:
    """Names of all namespaces and classes."""
    found: set[str] = set()
    for file in (*tree.units, *tree.headers):
        for heading in (one for kind in _SCOPES for one in kind.findall(tree.read(file).plain)):
            found.update(_WORD.findall(heading))
    return frozenset(found)


def _covers(made: Types, types: Types) -> bool:
    """Whether an instantiation may be the one asked for; "" and deduced types may be any type."""
    return all(one in ("", asked) for one, asked in zip(made, types, strict=False))


def _types_in(tree: SourceTree | None, file: str, arguments: str) -> Types:
    """`_types` of arguments in a file, with its aliases resolved."""
    types = _types(arguments)
    if tree is None or all(types):
        return types
    texts = (one.strip() for one in split_arguments(arguments, _BRACKETS))
    return _types(",".join(resolved(tree, file, text) for text in texts))


def _types(arguments: str) -> Types:
    """`c10::BFloat16, 128` as ("bf16", "128"); "" for what only a compiler knows."""
    found = []
    for argument in split_arguments(arguments, _BRACKETS):
        text = argument.strip()
        number = _INTEGER.fullmatch(text)
        found.append(number[1] if number else _TYPES.get(text.rpartition("::")[2], ""))
    return tuple(found)
