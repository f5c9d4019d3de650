"""A macro and a constant of one name, seen by one unit: the macro rewrites the declaration."""

import re
from collections.abc import Iterator

from flashbench.preflight.finding import Finding
from flashbench.preflight.source.tree import SourceTree

# `constexpr int NAME = ...`, `static const auto NAME{...}`, with or without `__device__`.
_CONSTANT = re.compile(
    r"\b(?:constexpr|const|constinit)\b[\w\s:<>,*&]*?[\s*&]([A-Za-z_]\w*)\s*(?:\[[^\]\n]*\]\s*)*[={]"
)
_ENUMERATION = re.compile(r"\benum\b[^;{}()]*\{([^{}]*)\}")


def macro_against_constant(tree: SourceTree) -> Iterator[Finding]:
    """`#define WARP_SIZE 32`, then `constexpr int WARP_SIZE` in what a unit sees after it.

    Files that ask for the macro (`#ifndef`, `#undef`) know of it and are left alone.
    """
    files = (*tree.units, *tree.headers)
    constants = {file: found for file in files if (found := _constants(tree, file))}
    macros = {define.name for file in files for define in tree.read(file).defines}
    names = macros & {name for found in constants.values() for name in found}
    reported = set()
    for unit in tree.units if names else ():
        for clash in _clashes(tree, unit, names, constants):
            if clash not in reported:
                reported.add(clash)
                name, definer, line, conditional, holder, constant = clash
                yield Finding(
                    f"{definer}:{line}",
                    f"#define {name} rewrites the constant {name} of {holder}:{constant}",
                    f"keep the constexpr in {holder}, and remove the #define",
                    "warning" if conditional else "error",
                )


Clash = tuple[str, str, int, bool, str, int]


def _clashes(
    tree: SourceTree, unit: str, names: set[str], constants: dict[str, dict[str, int]]
) -> Iterator[Clash]:
    """Walks through a unit as the preprocessor does, each file once, in the order of its lines."""
    active: dict[str, tuple[str, int, bool]] = {}
    seen = set()

    def walk(file: str) -> Iterator[Clash]:
        if file in seen:
            return
        seen.add(file)
        source = tree.read(file)
        events: list[tuple[int, str, str, bool]] = [
            (include.line, "include", include.name, False) for include in source.includes
        ]
        events += [(d.line, "define", d.name, d.conditional) for d in source.defines]
        events += [
            (line, "constant", name, False) for name, line in constants.get(file, {}).items()
        ]
        for line, kind, name, conditional in sorted(events):
            if kind == "include":
                found = tree.resolve(file, name)
                if found is not None:
                    yield from walk(found)
            elif name not in names:
                continue
            elif kind == "define":
                active.setdefault(name, (file, line, conditional))
            elif name in active and name not in source.asked_for:
                yield (name, *active[name], file, line)

    yield from walk(unit)


def _constants(tree: SourceTree, file: str) -> dict[str, int]:
    """Constants of a file, with the line of each."""
    source = tree.read(file)
    found = {match[1]: source.line_of(match.start(1)) for match in _CONSTANT.finditer(source.plain)}
    for match in _ENUMERATION.finditer(source.plain):
        for name in re.finditer(r"([A-Za-z_]\w*)\s*(?:=[^,]*)?(?:,|\Z)", match[1].strip()):
            found.setdefault(name[1], source.line_of(match.start()))
    return found
