"""Functions that bindings call are defined in a unit that the build compiles."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from flashbench.preflight.finding import Finding
from flashbench.preflight.source.cxx import UNITS
from flashbench.preflight.source.generated import written_by_a_generator
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


# Names of folders with the code of others, whose libraries are linked.
_VENDORED = re.compile(
    r"(^|/)(third[_-]?party|3rd[_-]?party|external|extern|vendor(ed)?|deps|dependencies|contrib)/",
    re.IGNORECASE,
)
_EXTERN_C = re.compile(r'\bextern\s*""\s*\{')
_OBJECT = re.compile(r"\b(static|thread_local|inline|constexpr|weak)\b")
# A parameter that is none: a literal or a call, so that the "declaration" makes an object.
_VALUE = re.compile(r"(^|,)\s*([-+]?\.?\d|\"\"|'|nullptr\b|\w[\w:]*\s*\([^()*&]*\)\s*(,|$))")


@dataclass(frozen=True, slots=True)
class _Declaration:
    name: str
    place: int  # in `plain`
    foreign: bool  # may be defined by a library, or be no function at all


def bound_but_not_built(tree: SourceTree) -> Iterator[Finding]:
    """A function that the bindings declare and use, and that no compiled unit defines.

    Only functions of the project's own: C functions, and those of vendored headers, may be of
    libraries."""
    binding = [unit for unit in tree.units if _BINDS.search(tree.read(unit).code)]
    if not binding or units_without_source(tree):
        return
    wanted = list(_wanted(tree, binding))
    names = {one.name for _, _, one in wanted}
    holders: dict[str, list[str]] = defaultdict(list)
    for file in (*tree.units, *tree.headers) if wanted else ():
        outer = tree.read(file).outer
        if names.isdisjoint(re.findall(r"\w+", outer)):
            continue
        for name in {match[1] for match in _DEFINES.finditer(outer)}:
            holders[name].append(file)
    compiled, headers = listed_units(tree), set(tree.headers)
    for unit, file, one in wanted:
        name, defined = one.name, holders[one.name]
        if not defined:
            if _may_be_defined(tree, name):
                continue
            found, fix = "no unit defines it", f"git log --all --oneline -S'{name}('"
        elif compiled and not compiled & set(defined) and not headers & set(defined):
            found = f"{defined[0]} defines it, which the build does not compile"
            fix = f"add {defined[0]} to the sources of the build"
        else:
            continue
        line = tree.read(file).line_of(one.place)
        yield Finding(f"{file}:{line}", f"{unit} calls {name}: {found}", fix)


def _wanted(tree: SourceTree, binding: list[str]) -> Iterator[tuple[str, str, _Declaration]]:
    """Functions that a unit of bindings uses, with the file that declares each."""
    declared: dict[str, list[_Declaration]] = {}  # headers are of many bindings
    for unit in binding:
        used = Counter(re.findall(r"[A-Za-z_]\w*", tree.read(unit).code))
        for file in tree.closure(unit):
            if file not in declared:
                declared[file] = list(_declarations(tree, file))
            for one in declared[file]:
                if not one.foreign and used[one.name] > (file == unit):
                    yield unit, file, one


def _declarations(tree: SourceTree, file: str) -> Iterator[_Declaration]:
    source = tree.read(file)
    vendored = _VENDORED.search(file) is not None or file.endswith(".c")
    ours = tree.tracked is None or file in tree.tracked
    opened = [found.end() for found in _EXTERN_C.finditer(source.plain)]
    blocks = [(place, _closed(source.plain, place)) for place in opened]
    for match in _DECLARES.finditer(source.outer):
        heading = match[0][: match.start(1) - match.start()]
        in_c = any(begin <= match.start(1) < end for begin, end in blocks)
        foreign = (
            vendored
            or not ours
            or in_c
            or '""' in heading
            or _OBJECT.search(heading) is not None
            or _VALUE.search(match[2].strip()) is not None
            or re.search(rf"\b{match[1]}\s*(\.|\[|->)", source.plain) is not None
        )
        yield _Declaration(match[1], match.start(1), foreign)


def _closed(plain: str, place: int) -> int:
    """Where the brace that was opened in front of `place` is closed."""
    depth = 1
    for match in re.compile(r"[{}]").finditer(plain, place):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.start()
    return len(plain)


def _may_be_defined(tree: SourceTree, name: str) -> bool:
    """Whether something else than a plain definition may define a function: a macro, a script, a
    submodule, or what the text has of it outside of bodies and is no declaration."""
    word = re.compile(rf"\b{name}\b")
    for file in (*tree.units, *tree.headers):
        outer = tree.read(file).outer
        if name in outer:
            declared = {found.start(1) for found in _DECLARES.finditer(outer)}
            if any(found.start() not in declared for found in word.finditer(outer)):
                return True
    if not all(tree.modules.values()):
        return True
    others = [
        one
        for one in tree.of_modules
        if one.endswith(UNITS) and any(one.startswith(f"{module}/") for module in tree.modules)
    ]
    if any(word.search(tree.read(one).text) for one in others):
        return True
    return _made_by_macro(tree, name) or written_by_a_generator(tree, name)


def _made_by_macro(tree: SourceTree, name: str) -> bool:
    """Whether a macro may write the definition: by pasting names, or with the name as argument."""
    word = re.compile(rf"\b{name}\b")
    for file in (*tree.units, *tree.headers):
        macros = tree.read(file).macros
        if word.search(macros) or any(pattern.fullmatch(name) for pattern in _pasted(macros)):
            return True
    call = re.compile(rf"^[ \t]*[A-Z][A-Z0-9_]*\s*\([^;{{}}]*\b{re.escape(name)}\b", re.MULTILINE)
    return any(call.search(tree.read(file).plain) for file in tree.units)


@lru_cache(maxsize=4096)
def _pasted(macros: str) -> tuple[re.Pattern[str], ...]:
    """What macros can make by `##`: what is a parameter may be anything."""
    found = set()
    for line in macros.split("\n") if "##" in macros else ():
        heading = re.match(r"\w+(?:\(([^)]*)\))?", line)
        parameters = {"__VA_ARGS__", *re.findall(r"\w+", heading[1] or "" if heading else "")}
        for chain in re.findall(r"\w+(?:\s*##\s*\w+)+", line):
            parts = re.split(r"\s*##\s*", chain)
            found.add("".join(r"\w*" if part in parameters else part for part in parts))
    return tuple(map(re.compile, found))
