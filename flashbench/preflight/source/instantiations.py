"""Templates whose body is in a unit are instantiated there for every type that others ask for."""

import re
from collections.abc import Iterator

from flashbench.preflight.finding import Finding
from flashbench.preflight.source.tree import SourceTree

# `template <...> type name(arguments);` and the same with a body.
_TEMPLATE = re.compile(
    r"\btemplate\s*<([^;{}()]+)>\s*(?:[\w:]+(?:<[^;{}()]*>)?[\s*&]+)+([A-Za-z_]\w*)\s*\(([^;{}]*)\)"
    r"\s*(?:noexcept\s*)?([;{])"
)
_ALIASES = {
    "bfloat16": "bf16",
    "nv_bfloat16": "bf16",
    "__nv_bfloat16": "bf16",
    "bhalf": "bf16",
    "half": "fp16",
    "__half": "fp16",
    "half_t": "fp16",
    "bfloat16_t": "bf16",
}


def missing_instantiation(tree: SourceTree) -> Iterator[Finding]:
    """`launch<BFloat16>(...)` is called, `launch` is defined in a unit, and nothing there makes
    that one of it. Types that are parameters themselves, and instantiations by macros, are left to
    the linker."""
    declared, bodies = _templates(tree)
    for name, parameters in declared.items():
        units = [file for file in bodies.get(name, []) if file in tree.units]
        if not units or any(file in tree.headers for file in bodies[name]):
            continue  # a body in a header serves everybody
        if any(
            re.search(rf"\b{name}\b", tree.read(f).macros) for f in (*tree.units, *tree.headers)
        ):
            continue
        made = _made(tree, name)
        for user in tree.units:
            if user in units:
                continue
            for types, line in _asked(tree, user, name, parameters):
                if types not in made:
                    yield Finding(
                        f"{user}:{line}",
                        f"calls {name}<{', '.join(types)}>, which {units[0]} does not instantiate",
                        f"add `template ... {name}<{', '.join(types)}>(...);` to {units[0]}",
                    )


def _templates(tree: SourceTree) -> tuple[dict[str, int], dict[str, list[str]]]:
    """Function templates that are declared, with the number of their parameters, and the files
    that hold a body of one."""
    declared: dict[str, int] = {}
    bodies: dict[str, list[str]] = {}
    for file in (*tree.units, *tree.headers):
        plain = tree.read(file).plain
        if "template" not in plain:
            continue
        for match in _TEMPLATE.finditer(plain):
            if match[4] == ";":
                declared.setdefault(match[2], match[1].count(",") + 1)
            else:
                bodies.setdefault(match[2], []).append(file)
    return declared, bodies


def _made(tree: SourceTree, name: str) -> set[tuple[str, ...]]:
    """The arguments that `name` is instantiated or specialised for, anywhere."""
    explicit = re.compile(
        rf"\btemplate\s*(?:<\s*>)?[^;{{}}<]*(?:<[^;{{}}()]*>[\s*&]+)?\b{name}\s*<([^;{{}}()]*)>\s*\("
    )
    return {
        _types(match[1])
        for file in (*tree.units, *tree.headers)
        for match in explicit.finditer(tree.read(file).plain)
    }


def _asked(
    tree: SourceTree, user: str, name: str, parameters: int
) -> Iterator[tuple[tuple[str, ...], int]]:
    """The concrete types that a unit calls the template with, each once, with the line."""
    source = tree.read(user)
    seen = set()
    for match in re.finditer(rf"(?<!\w){name}\s*<([^;{{}}()]*)>\s*\(", source.plain):
        types = _types(match[1])
        before = source.plain[: match.start()].rpartition(";")[2]
        if re.search(r"\btemplate\b[^;{}]*\Z", before) or len(types) != parameters or types in seen:
            continue
        if all(_is_concrete(source.plain, one) for one in types):
            seen.add(types)
            yield types, source.line_of(match.start())


def _is_concrete(plain: str, name: str) -> bool:
    """Whether a type or value is no template parameter and no local alias of this file."""
    if re.search(rf"\b(typename|class|int|bool|auto|using|typedef)\s+(\.\.\.\s*)?{name}\b", plain):
        return False
    return name not in ("scalar_t", "T", "Ts", "Args")


def _types(arguments: str) -> tuple[str, ...]:
    """`c10::BFloat16, 128` as ("bf16", "128"): without scopes, aliases of one type made equal."""
    found = []
    for argument in arguments.split(","):
        last = argument.strip().rpartition("::")[2].strip()
        found.append(_ALIASES.get(last.lower(), last))
    return tuple(found)
