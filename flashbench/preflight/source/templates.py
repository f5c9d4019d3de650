"""Function templates of a project: declarations, bodies, instantiations and specialisations."""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from flashbench.builds.missing_symbol import last_angled
from flashbench.preflight.source.aliases import resolved
from flashbench.preflight.source.cxx import split_arguments
from flashbench.preflight.source.functions import SourceFile
from flashbench.preflight.source.removed import removed_units, texts_at
from flashbench.preflight.source.tree import SourceTree

# Bounded, so that matching takes linear time on any text.
_HEADING = re.compile(r"template(?<=\btemplate)\b([^;{}]{0,4000}+)([;{])")
_ANGLE = re.compile(r"<|(?<!-)>")
_INTEGER = re.compile(r"(\d+|0[xX][\da-fA-F]+)[uUlL]*")
BRACKETS = "<([", ">)]"
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


# How names of files spell types.
_SPELLED = {
    "bf16": r"bf16|bfloat",
    "fp16": r"fp16|half|(?<!b)float16",
    "float": r"fp32|float(?!16|64|8)",
    "double": r"fp64|double",
}
Types = tuple[str, ...]


@dataclass
class Templates:
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


@lru_cache(maxsize=1)
def templates_of(tree: SourceTree) -> Templates:
    return _of_files(((file, tree.read(file)) for file in tree.sources), tree)


def made_at(
    tree: SourceTree, units: list[str], revision: str, name: str
) -> list[tuple[str, Types]]:
    """What units instantiated of a template at a revision, each with the types."""
    texts = texts_at(tree, [(unit, revision) for unit in units])
    return _of_files(zip(units, map(SourceFile, texts), strict=False)).made[name]


@lru_cache(maxsize=256)
def removed_makers(tree: SourceTree, name: str) -> list[tuple[str, Types]]:
    """Removed units that instantiated a template, each with the types."""
    units = removed_units(tree).items()
    return _of_files((file, source) for file, source in units if name in source.text).made[name]


def _of_files(
    sources: Iterable[tuple[str, SourceFile]], tree: SourceTree | None = None
) -> Templates:
    """Collect the templates, reading each file once. tree: resolves the files' aliases."""
    found = Templates()
    for file, source in sources:
        plain = source.plain
        for match in _HEADING.finditer(plain):
            if not plain.endswith(("extern ", "extern\n"), 0, match.start()):
                _add(found, file, match[1].strip(), match[2], tree)
    return found


def _add(found: Templates, file: str, heading: str, end: str, tree: SourceTree | None) -> None:
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
            found.promised[name].add(types_in(tree, file, arguments))
        else:
            found.made[name].append((file, types_in(tree, file, arguments)))
            if is_special:
                found.special[name].add(file)
    elif arguments is None:
        if "..." in parameters:
            found.may_make[name] = file
        found.parameters[name].add(len(split_arguments(parameters, BRACKETS)))
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


def covers(made: Types, types: Types) -> bool:
    """Whether an instantiation may be the one asked for; "" and deduced types may be any type."""
    return all(one in ("", asked) for one, asked in zip(made, types, strict=False))


def types_in(tree: SourceTree | None, file: str, arguments: str) -> Types:
    """`_types` of arguments in a file, with its aliases resolved."""
    types = types_of(arguments)
    if tree is None or all(types):
        return types
    texts = (one.strip() for one in split_arguments(arguments, BRACKETS))
    return types_of(",".join(resolved(tree, file, text) for text in texts))


def types_of(arguments: str) -> Types:
    """`c10::BFloat16, 128` as ("bf16", "128"); "" for what only a compiler knows."""
    found = []
    for argument in split_arguments(arguments, BRACKETS):
        text = argument.strip()
        number = _INTEGER.fullmatch(text)
        found.append(number[1] if number else _TYPES.get(text.rpartition("::")[2], ""))
    return tuple(found)


def kind_of(types: Types) -> str:
    """The first that is a type, and not a value."""
    names = (one for one in types if one in _TYPES.values() and one not in ("true", "false"))
    return next(names, ", ".join(types))


def spelled(file: str, one: str) -> bool:
    """Whether the name of a file has a type or a value."""
    pattern = _SPELLED.get(one, rf"(?<!\d){re.escape(one)}(?!\d)")
    return re.search(pattern, file.rpartition("/")[2], re.IGNORECASE) is not None
