"""Bindings define a module by the name that the build and the imports use."""

import difflib
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path

from flashbench.preflight.finding import CannotCheck, Finding
from flashbench.preflight.fixes import replace, write
from flashbench.preflight.source.lines import line_of
from flashbench.preflight.source.listings import is_build, listed
from flashbench.preflight.source.python_modules import (
    Import,
    built,
    built_by,
    lost_module,
    packages_of,
)
from flashbench.preflight.source.references import called_modules, missing_references
from flashbench.preflight.source.setup_script import is_optional
from flashbench.preflight.source.tree import SourceTree
from flashbench.preflight.source.units import resolve

_DEFINES = re.compile(
    r"\b(?:PYBIND11_MODULE|NB_MODULE)\s*\(\s*(\w+)|\bPyInit_(\w+)\s*\(\s*(?:void)?\s*\)"
)
_MAY_DEFINE = re.compile(r"_MODULE|PyInit_")
# Usual names of compiled modules outside any package.
_COMPILED = re.compile(r"_C|\w+_(?:C|cuda|cpp|cc|ext|kernels?|ops|lib|native)")


def wrong_module_name(tree: SourceTree) -> Iterator[Finding | CannotCheck]:
    """Find a module that bindings define, or Python imports, by a name no build makes."""
    defined = set()
    for name, finding in _defined(tree):
        defined.add(name)
        yield finding
    yield from _imported(tree, defined)


def _defined(tree: SourceTree) -> Iterator[tuple[str, Finding]]:
    """Find `PYBIND11_MODULE(a, m)` in a unit whose build file makes only modules of other names.
    Anything may build a unit that no build file lists, a test's `load` included."""
    listing: dict[str, set[str]] = defaultdict(set)
    for file, name, _ in listed(tree):
        for unit in resolve(tree, file, name):
            listing[unit].add(file)
    for unit, files in sorted(listing.items()):
        source = tree.read(unit)
        for match in _DEFINES.finditer(source.code) if _MAY_DEFINE.search(source.code) else ():
            name = match[1] or match[2]
            macro = name.isupper() and len(name.strip("_")) > 1  # `_C` is a name
            if "TORCH_EXTENSION_NAME" in name or macro or len(files) != 1:
                continue
            (file,) = files
            made = built_by(tree).get(file)
            if made is None or made.unknown or not made.modules or name in made.last:
                continue
            other, where = next(iter(made.modules.items()))
            at = f"{unit}:{line_of(source.code, match.start())}"
            last = other.rpartition(".")[2]
            imported = {one.name for one in packages_of(tree).imports()}
            fix = replace(source.text, at, name, last)
            if name in imported and last not in imported:  # the build alone is wrong
                fix = replace(tree.read(file).text, where, other, f"{other[: -len(last)]}{name}")
            found = f"defines the module {name}, but {where} builds {', '.join(sorted(made.last))}"
            yield name, Finding(at, found, fix)


def _imported(tree: SourceTree, defined: set[str]) -> Iterator[Finding | CannotCheck]:
    """Find an import of a module that is neither written in Python nor built."""
    made = built(tree)
    if not made.modules:
        return
    reported = set()
    packages = packages_of(tree)
    imports = list(packages.imports())
    # A module outside packages counts as misnamed only if nobody imports what is built.
    unused = made.last.isdisjoint({one.name for one in imports})
    for one in imports:
        if one.name in made.last | defined or (one.package, one.name) in reported:
            continue
        if one.package:
            if not packages.lacks(one):
                continue
        elif not (unused and _may_be_meant(tree, one)) or _may_be_installed(tree, one.name):
            continue
        if is_optional(tree.read(one.file).text, one.line) or _may_be_written(tree, one):
            continue
        if lost_module(tree, one):
            continue  # named among the files that git has or had
        if reason := made.unknown or " and ".join(missing_references(tree)[:1]):
            yield CannotCheck(reason if made.unknown else f"{reason} is missing")
            return
        reported.add((one.package, one.name))
        name = f"{one.package}.{one.name}".lstrip(".")
        nearest = difflib.get_close_matches(name, made.modules, 1, 0)
        other, where = nearest[0], made.modules[nearest[0]]
        names = ", ".join(sorted(made.modules)[:5])
        found = f"imports {name}, but {where} builds {names}"
        at = f"{one.file}:{one.line}"
        text, last = tree.read(one.file).text, other.rpartition(".")[2]
        old, new = one.name, last
        if one.package and name in text.splitlines()[one.line - 1]:
            old, new = name, f"{one.package}.{last}"
        fix = replace(text, at, old, new, everywhere=True)
        users = {each.file for each in imports if each.name == one.name}
        if len(users) > 1 and all(each.name != last for each in imports):  # the build is wrong
            text = tree.read(where.rpartition(":")[0]).text
            fix = replace(text, where, other, f"{other[: -len(last)]}{one.name}")
        if one.package and not (one.name.startswith("_") or _COMPILED.fullmatch(one.name)):
            file = f"{packages.folders[one.package][0]}/{one.name}.py"
            found = f"imports {name}: no {file} here or in git, and {where} builds {names}"
            fix = write(file, "correct the import")
        yield Finding(at, found, fix)


def _may_be_meant(tree: SourceTree, one: Import) -> bool:
    """Whether an import outside packages may mean a module of the build: by its form, or in what is
    called by its likeness. A package whose extension the build makes begins the extension's name.
    """
    if _COMPILED.fullmatch(one.name):
        return True
    alike = difflib.get_close_matches(one.name, built(tree).last, 1, 0.7)
    near = one.name.startswith("_") or (alike and not alike[0].startswith(one.name))
    return bool(near) and one.file in called_modules(tree)


def _may_be_written(tree: SourceTree, one: Import) -> bool:
    """Whether a script writes the module, or a build file names it for another reason."""
    written = re.compile(rf"(?<![\w.]){re.escape(one.name)}\.py")
    word = re.compile(rf"(?<!\w){re.escape(one.name)}(?!\w)")
    for file in (*tree.build_files, ".gitignore"):
        text = tree.read(file).text
        if one.name in text and (written.search(text) or (is_build(file) and word.search(text))):
            return True
    return False


def _may_be_installed(tree: SourceTree, name: str) -> bool:
    """Whether the module is this project's, Python's, a requirement's or one that is installed."""
    if name in packages_of(tree).top or name in sys.stdlib_module_names:
        return True
    elsewhere = [one for one in sys.path if not Path(one).absolute().is_relative_to(tree.root)]
    if PathFinder.find_spec(name, elsewhere) is not None:
        return True
    requirement = re.compile(rf"(?<!\w){name.replace('_', '[-_.]')}(?!\w)", re.IGNORECASE)
    files = (one for one in tree.files if one.endswith((".toml", ".cfg", ".txt", ".yml", ".yaml")))
    return any(requirement.search(tree.read(one).text) for one in files)
