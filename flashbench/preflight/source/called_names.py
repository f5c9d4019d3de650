"""Names that Python calls in what the build makes: functions of modules, symbols of libraries."""

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import PurePosixPath

from flashbench.preflight.finding import CannotCheck, Finding, in_short
from flashbench.preflight.fixes import edit
from flashbench.preflight.source.compiled_units import build_of
from flashbench.preflight.source.in_git import how_to_get
from flashbench.preflight.source.libraries import LOADERS, is_made, makes_libraries
from flashbench.preflight.source.listings import add_to_build
from flashbench.preflight.source.python_modules import built
from flashbench.preflight.source.references import called_modules
from flashbench.preflight.source.removed import removed_units
from flashbench.preflight.source.setup_script import (
    ANY,
    NOT_PYTHON,
    SetupScript,
    dotted,
    is_optional,
    nodes_of,
)
from flashbench.preflight.source.tree import SourceTree
from flashbench.preflight.source.units import units_without_source

_LITERAL = re.compile(r'"((?:\\.|[^"\\\n])*)"')
# A macro that makes a literal of its argument.
_STRINGS = re.compile(r"(?m)^(\w+)\(.*(?<!#)#\s*[A-Za-z_]")
_MODULE = (
    r"\b(?:PYBIND11_MODULE|NB_MODULE)\s*\(\s*(?:{name}|TORCH_EXTENSION_NAME)\b|\bPyInit_{name}\b"
)
_OPS = "torch.ops."
_OPERATORS = re.compile(r"torch\.ops\.(\w+)")
_REGISTERS = re.compile(r"\bTORCH_LIBRARY(?:_FRAGMENT|_IMPL)?\s*\(\s*(\w+)|\.op\(\s*\"(\w+)::")
_C_NAMES = re.compile(r'extern\s*"C"')
Nodes = tuple[ast.AST, ...]


def name_not_bound(tree: SourceTree) -> Iterator[Finding | CannotCheck]:
    """Find a name that Python takes from a module of the build, or from a library that it loads,
    and that no source of theirs has."""
    if unread := units_without_source(tree):
        raise CannotCheck(f"{unread} may define anything")
    words, doubts = (*built(tree).last, *LOADERS), list[str]()
    for file in called_modules(tree):
        text = tree.read(file).text
        spaces = _OPERATORS.findall(text) if _OPS in text else ()
        if _namespaces(tree).isdisjoint(spaces) and not any(word in text for word in words):
            continue
        try:
            nodes = nodes_of(text)
        except NOT_PYTHON:
            continue
        modules, libraries = _modules(tree, nodes), _libraries(tree, file)
        doubts += _kept_elsewhere(tree, file, libraries)
        uses = [*_imported(tree, nodes), *_taken(nodes, modules.keys() | libraries.keys())]
        uses += _operators(nodes, text)
        reported = set[str]()
        for owner, name, line in uses:
            library, holders = libraries.get(owner, ""), list[str]()
            if name in reported or is_optional(text, line):
                continue
            if owner.startswith(_OPS):
                space = owner.removeprefix(_OPS)
                known = space not in _namespaces(tree) or _is_operator(tree, space, name)
                found = f"calls {owner}.{name}: no source registers it"
            elif library:
                holders = list(_exporting(tree, name))
                known = not all(map(build_of(tree).leaves_out, holders))
                found = f'calls {name} of {library}: no unit defines it as extern "C"'
                if holders:
                    found = f"calls {name} of {library}: {holders[0]} defines it, which the build"
                    found += " does not compile"
            else:
                made = modules.get(owner, owner)
                known = not _binds(tree, made) or _has_literal(tree, name)
                found = f"takes {name} from {made}: no unit binds that name"
            if not known:
                reported.add(name)
                what, fix = _removed(tree, name)
                if library and holders:
                    what, fix = "", add_to_build(tree, holders[0])
                fix = fix or edit(
                    f"{file}:{line}", f"correct it, or bind {name} in a unit of the build"
                )
                yield Finding(f"{file}:{line}", found + what, fix)
    yield from in_short(doubts)


def _operators(nodes: Nodes, text: str) -> Iterator[tuple[str, str, int]]:
    """PyTorch operators that the file reads, without those that it sets."""
    named = [
        (dotted(node.value), node.attr, node.lineno, isinstance(node.ctx, ast.Store))
        for node in (nodes if _OPS in text else ())
        if isinstance(node, ast.Attribute) and _OPERATORS.fullmatch(dotted(node.value))
    ]
    given = {one[:2] for one in named if one[3] and not is_optional(text, one[2])}
    yield from (one[:3] for one in named if not one[3] and one[:2] not in given)


@lru_cache(maxsize=1)
def _namespaces(tree: SourceTree) -> frozenset[str]:
    """Namespaces in which units register operators of PyTorch."""
    sources = map(tree.read, tree.units)
    texts = (one.code for one in sources if "TORCH_LIBRARY" in one.text or ".op(" in one.text)
    return frozenset(one for text in texts for pair in _REGISTERS.findall(text) for one in pair)


def _is_operator(tree: SourceTree, space: str, name: str) -> bool:
    """Whether a source registers an operator, in C++ or in Python."""
    quoted = re.compile(rf"[\"'](?:{space}::)?{re.escape(name)}\b")
    scripts = (file for file in tree.files if file.endswith(".py"))
    return _has_literal(tree, name) or any(quoted.search(tree.read(one).text) for one in scripts)


def _kept_elsewhere(tree: SourceTree, file: str, known: dict[str, str]) -> Iterator[str]:
    """Where a file loads a library of the build that it gives no name of its own."""
    text = tree.read(file).text
    if not (any(loader in text for loader in LOADERS) and makes_libraries(tree)):
        return
    script, named = SetupScript(text, file), set(known.values())
    for node in script.nodes:
        if not isinstance(node, ast.Call) or not node.args or "ops" in dotted(node.func):
            continue
        if dotted(node.func).rpartition(".")[2] in LOADERS:
            names = {one.text.rpartition("/")[2] for one in script.values(node.args[0])}
            ours = [one for one in names if ANY in one or is_made(tree, one, file)]
            if ours and not named.issuperset(names):
                yield f"{file}:{node.lineno} loads a library, and text does not tell who calls it"


def _removed(tree: SourceTree, name: str) -> tuple[str, str]:
    """The removed unit that had the name, to end a sentence, and the fix; "" if there is none."""
    word = re.compile(rf"\b{re.escape(name)}\b")
    units = (unit for unit, source in removed_units(tree).items() if word.search(source.code))
    unit = next(units, "")
    what, fix = how_to_get(tree, unit) if unit else ("", "")
    return (f"; {unit} had it, {what}", fix) if unit else ("", "")


def _modules(tree: SourceTree, nodes: Nodes) -> dict[str, str]:
    """Names by which a file knows modules of the build, each with the module's own."""
    made, found = built(tree).last, dict[str, str]()
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            found |= {one.asname or one.name: one.name for one in node.names if one.name in made}
        elif isinstance(node, ast.Import):
            for one in node.names:
                if one.name.rpartition(".")[2] in made and (one.asname or "." not in one.name):
                    found[one.asname or one.name] = one.name.rpartition(".")[2]
    return found


def _imported(tree: SourceTree, nodes: Nodes) -> Iterator[tuple[str, str, int]]:
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            last = node.module.rpartition(".")[2]
            if last in built(tree).last:
                yield from ((last, one.name, node.lineno) for one in node.names if one.name != "*")


def _libraries(tree: SourceTree, file: str) -> dict[str, str]:
    """Names at the top of a file that are libraries which the build makes, by ctypes."""
    text, found = tree.read(file).text, dict[str, str]()
    if not any(loader in text for loader in LOADERS):
        return found
    script = SetupScript(text, file)
    for node in ast.iter_child_nodes(script.nodes[0]):
        if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)):
            continue
        target, call = node.targets[0], node.value
        loads = dotted(call.func).rpartition(".")[2] in LOADERS and "ops" not in dotted(call.func)
        if isinstance(target, ast.Name) and loads and call.args:
            names = [one.text.rpartition("/")[2] for one in script.values(call.args[0])]
            if len(names) == 1 and ANY not in names[0] and is_made(tree, names[0], file):
                found[target.id] = names[0]
    return found


def _taken(nodes: Nodes, owners: set[str]) -> Iterator[tuple[str, str, int]]:
    """Attributes that are read of these names."""
    if not owners:
        return
    stored = {
        (node.value.id, node.attr)
        for node in nodes
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
    }
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner, name = node.value.id, node.attr
            if owner in owners and not name.startswith("_") and (owner, name) not in stored:
                yield owner, name, node.lineno


@lru_cache(maxsize=256)
def _binds(tree: SourceTree, module: str) -> bool:
    """Whether a unit of this project binds the module, in a way whose names are literals."""
    pattern = re.compile(_MODULE.format(name=re.escape(module)))
    return any(pattern.search(tree.read(unit).code) for unit in tree.units)


@lru_cache(maxsize=1)
def _literals(tree: SourceTree) -> frozenset[str]:
    """What literals of the sources begin with: a name, or that of a schema."""
    texts = (tree.read(file).code for file in tree.sources)
    found = (one.partition("(")[0] for text in texts for one in _LITERAL.findall(text))
    return frozenset(one.rpartition("::")[2].partition(".")[0] for one in found)


@lru_cache(maxsize=1)
def _makers_of_literals(tree: SourceTree) -> frozenset[str]:
    """Macros that make a literal of an argument, or give it to one that does."""
    texts = [tree.read(file).macros for file in tree.sources]
    found = {name for text in texts for name in _STRINGS.findall(text)}
    while found:
        calls = re.compile(rf"(?m)^(\w+)\(.*\b(?:{'|'.join(found)})\b")
        more = {name for text in texts for name in calls.findall(text)} - found
        if not more:
            break
        found |= more
    return frozenset(found)


def _has_literal(tree: SourceTree, name: str) -> bool:
    """Whether a literal of the sources is this name, or a macro may make one."""
    if name in _literals(tree) or any(PurePosixPath(one).suffix == ".pyx" for one in tree.files):
        return True
    if not (macros := _makers_of_literals(tree)):
        return False
    given = re.compile(rf"\b(?:{'|'.join(macros)})\s*\([^;{{}}]*\b{re.escape(name)}\b")
    return any(given.search(tree.read(file).plain) for file in tree.sources)


def _exporting(tree: SourceTree, name: str) -> Iterator[str]:
    """Files with extern "C" that may define a function of this name."""
    defined = re.compile(rf"(?<!::)(?<!\.)(?<!->)\b{re.escape(name)}\s*\(|##")
    for file in tree.sources:
        source = tree.read(file)
        is_c = file.endswith(".c") or _C_NAMES.search(source.code) is not None
        if is_c and defined.search(source.code):
            yield file
