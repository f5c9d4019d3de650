"""Function templates are defined, instantiated or specialised for every type that units ask for."""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from flashbench.builds.missing_symbol import last_angled
from flashbench.preflight.finding import Finding
from flashbench.preflight.source.cxx import HEADERS, UNITS, split_arguments
from flashbench.preflight.source.generated import written_by_a_generator
from flashbench.preflight.source.tree import SourceTree

_INCLUDED = (".tpp", ".ipp", ".tcc", ".txx", ".impl", ".def")  # no headers by their names
# Bounded, so that their time is linear in whatever text lies there.
_HEADING = re.compile(r"template(?<=\btemplate)\b([^;{}]{0,4000}+)([;{])")
_CALL = re.compile(r"\b([A-Za-z_]\w*)\s*<([^;{}()]{0,400})>\s*\(")
_MACRO_CALL = re.compile(r"^[ \t]*[A-Z][A-Z0-9_]*\s*\(([^;{}]*)", re.MULTILINE)
_WORD = re.compile(r"[A-Za-z_]\w*")
_INTEGER = re.compile(r"(\d+|0[xX][\da-fA-F]+)[uUlL]*")
_BRACKETS = "<([", ">)]"
# Types that are what they are called, by one name each.
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
        "true",
        "false",
    )
    for name in names.split()
}


@dataclass
class _Templates:
    """The function templates of a project, by name."""

    parameters: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    bodies: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # the files
    made: dict[str, set[tuple[str, ...]]] = field(default_factory=lambda: defaultdict(set))
    # `template <> ... name<T>(...)`: with a body, the files; without one, the types.
    special: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    promised: dict[str, set[tuple[str, ...]]] = field(default_factory=lambda: defaultdict(set))
    # Written by a macro, or instantiated for types that the compiler deduces.
    untold: set[str] = field(default_factory=set)


def missing_instantiation(tree: SourceTree) -> Iterator[Finding]:
    """`launch<BFloat16>(...)` is called, and nothing makes that one: the body of `launch` is in a
    unit which does not instantiate it, or there are specialisations alone, none of them this one.
    Names of types and values that the text leaves open (aliases, parameters,
    constants), and instantiations by macros, are left to the linker."""
    found = _templates(tree)
    units = set(tree.units)
    wanted = {
        name
        for name, counts in found.parameters.items()
        if len(counts) == 1
        and name not in found.untold
        and (found.promised[name] or _holders(found, name) <= units)
    }
    for user in tree.units if wanted else ():
        for name, types, line in _asked(tree, user, wanted):
            (count,) = found.parameters[name]
            files = sorted(_holders(found, name))
            if len(types) != count or any(_covers(made, types) for made in found.made[name]):
                continue
            said = f"calls {name}<{', '.join(types)}>, which "
            if types in found.promised[name]:
                said += "is declared as a specialisation and defined nowhere"
                fix = f"git log --all --oneline -S'{name}<'"
            elif not files or not set(files) <= units:
                continue
            elif found.bodies[name]:
                if set(tree.closure(user)) & set(files):
                    continue
                said += f"{files[0]} does not instantiate"
                fix = f"add `template ... {name}<{', '.join(types)}>(...);` to {files[0]}"
            else:
                said += f"nothing specialises, as {files[0]} does for other types"
                fix = f"add `template <> ... {name}<{', '.join(types)}>(...)` to {files[0]}"
            if not _may_be_elsewhere(tree, name):
                yield Finding(f"{user}:{line}", said, fix)


def _holders(found: _Templates, name: str) -> set[str]:
    """The files with its body, or, where it has none, with its specialisations."""
    return found.bodies[name] or found.special[name]


def _may_be_elsewhere(tree: SourceTree, name: str) -> bool:
    """Whether a generator, a submodule or a file of another kind that is included may define it."""
    word = re.compile(rf"\b{name}\b")
    others = [file for file in tree.files if file.endswith(_INCLUDED)]
    others += [file for file in tree.of_modules if file.endswith((*UNITS, *HEADERS))]
    return (
        not all(tree.modules.values())
        or written_by_a_generator(tree, name)
        or any(word.search(tree.read(file).text) for file in others)
    )


def _templates(tree: SourceTree) -> _Templates:
    """Reads each file once."""
    found = _Templates()
    for file in (*tree.units, *tree.headers):
        source = tree.read(file)
        found.untold.update(_WORD.findall(source.macros))
        plain = source.plain
        for call in _MACRO_CALL.finditer(plain):
            found.untold.update(_WORD.findall(call[1]))
        for match in _HEADING.finditer(plain):
            if not plain[: match.start()].endswith(("extern ", "extern\n")):
                _add(found, file, match[1].strip(), match[2])
    return found


def _add(found: _Templates, file: str, heading: str, end: str) -> None:
    """Take in `<typename T> void name(...)`, with ";" or "{" behind it, or `void name<T>(...)`."""
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
            found.untold.add(name)
        elif is_special and end == ";":
            found.promised[name].add(_types(arguments))
        else:
            found.made[name].add(_types(arguments))
            if is_special:
                found.special[name].add(file)
    elif arguments is None:
        if "..." in parameters:
            found.untold.add(name)
        found.parameters[name].add(len(split_arguments(parameters, _BRACKETS)))
        if end == "{":
            found.bodies[name].add(file)


def _angled(text: str) -> tuple[str, str]:
    """`<a, b> rest` as what the brackets hold and the rest; nothing in front of a plain text."""
    if not text.startswith("<"):
        return "", text
    depth = 0
    for place, sign in enumerate(text):
        depth += (sign == "<") - (sign == ">" and text[place - 1] != "-")
        if depth == 0:
            return text[1:place].strip(), text[place + 1 :].strip()
    return "", ""


def _asked(
    tree: SourceTree, user: str, wanted: set[str]
) -> Iterator[tuple[str, tuple[str, ...], int]]:
    """The concrete types that a unit calls templates with, each once, with the line."""
    source = tree.read(user)
    seen = set()
    for match in _CALL.finditer(source.plain):
        if match[1] not in wanted:
            continue
        types = _types(match[2])
        before = source.plain[max(0, match.start() - 1000) : match.start()].rpartition(";")[2]
        if (match[1], types) in seen or re.search(r"\btemplate\b[^{}]*\Z", before):
            continue
        if before.endswith((".", "->")) or _is_foreign(tree, before):
            continue
        if all(types):
            seen.add((match[1], types))
            yield match[1], types, source.line_of(match.start())


def _is_foreign(tree: SourceTree, before: str) -> bool:
    """Whether a name is qualified by a namespace or class that the project does not declare."""
    scope = re.search(r"(\w+)\s*::\s*\Z", before)
    return scope is not None and not _declares_scope(tree, scope[1])


@lru_cache(maxsize=4096)
def _declares_scope(tree: SourceTree, scope: str) -> bool:
    heading = re.compile(rf"\b(?:namespace\b[\w\s:]*|struct\s+|class\s+)\b{scope}\b")
    return any(heading.search(tree.read(file).plain) for file in (*tree.units, *tree.headers))


def _covers(made: tuple[str, ...], types: tuple[str, ...]) -> bool:
    """Whether an instantiation may be that one; "" may be any type, and so may what is deduced."""
    return all(one in ("", asked) for one, asked in zip(made, types, strict=False))


def _types(arguments: str) -> tuple[str, ...]:
    """`c10::BFloat16, 128` as ("bf16", "128"); "" for what only a compiler knows."""
    found = []
    for argument in split_arguments(arguments, _BRACKETS):
        text = argument.strip()
        number = _INTEGER.fullmatch(text)
        found.append(number[1] if number else _TYPES.get(text.rpartition("::")[2], ""))
    return tuple(found)
