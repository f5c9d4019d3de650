"""Functions that bindings call are defined in a unit that the build compiles."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

from flashbench.preflight.finding import Finding
from flashbench.preflight.source.tree import SourceTree
from flashbench.preflight.source.units import listed_units, units_without_source

_BINDS = re.compile(r"\b(PYBIND11_MODULE|TORCH_LIBRARY\w*|NB_MODULE|PyInit_\w+|PyModuleDef)\b")
# A declaration: a type, a name, arguments, ";". No template: `instantiations` has those.
_DECLARES = re.compile(
    r"(?:^|[;}])\s*(?!(?:return|using|typedef|template|friend|namespace|asm)\b)"
    r"(?:extern\s+(?:\"\"\s+)?)?(?:[\w:]+(?:<[^;{}()]*>)?[\s*&]+)+([A-Za-z_]\w*)\s*"
    r"\(([^;{}()]*(?:\([^;{}()]*\)[^;{}()]*)*)\)\s*(?:noexcept\s*)?(?=;)"
)
# The same with a body, of a class's members too.
_DEFINES = re.compile(
    r"(?<![\w.>])([A-Za-z_]\w*)\s*\([^;{}()]*(?:\([^;{}()]*\)[^;{}()]*)*\)\s*"
    r"(?:(?:const|noexcept|override|final|try)\b\s*|->\s*[\w:<>&*\s]+)*(?:\{|:[^;:{}]*\{)"
)


def bound_but_not_built(tree: SourceTree) -> Iterator[Finding]:
    """A function that the bindings declare and use, and that no compiled unit defines."""
    binding = [unit for unit in tree.units if _BINDS.search(tree.read(unit).code)]
    if not binding or units_without_source(tree):
        return
    holders: dict[str, list[str]] = defaultdict(list)
    for file in (*tree.units, *tree.headers):
        for name in {match[1] for match in _DEFINES.finditer(tree.read(file).outer)}:
            holders[name].append(file)
    compiled, headers = listed_units(tree), set(tree.headers)
    declared: dict[str, list[tuple[str, int]]] = {}  # headers are of many bindings
    for unit in binding:
        used = Counter(re.findall(r"[A-Za-z_]\w*", tree.read(unit).code))
        for file in tree.closure(unit):
            if file not in declared:
                matches = _DECLARES.finditer(tree.read(file).outer)
                declared[file] = [(match[1], match.start(1)) for match in matches]
            for name, place in declared[file]:
                if used[name] <= (file == unit):
                    continue  # declared, not used
                defined = holders[name]
                if not defined:
                    if _made_by_macro(tree, name):
                        continue
                    found, fix = "no unit defines it", f"git log --all --oneline -S'{name}('"
                elif compiled and not compiled & set(defined) and not headers & set(defined):
                    found = f"{defined[0]} defines it, which the build does not compile"
                    fix = f"add {defined[0]} to the sources of the build"
                else:
                    continue
                line = tree.read(file).line_of(place)
                yield Finding(f"{file}:{line}", f"{unit} calls {name}: {found}", fix)


def _made_by_macro(tree: SourceTree, name: str) -> bool:
    """Whether a macro may write the definition: by pasting names, or with the name as argument."""
    files = (*tree.units, *tree.headers)
    if any(
        "##" in tree.read(f).macros or re.search(rf"\b{name}\b", tree.read(f).macros) for f in files
    ):
        return True
    call = re.compile(rf"^[ \t]*[A-Z][A-Z0-9_]*\s*\([^;{{}}]*\b{re.escape(name)}\b", re.MULTILINE)
    return any(call.search(tree.read(file).plain) for file in tree.units)
