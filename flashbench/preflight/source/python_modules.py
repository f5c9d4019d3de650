"""Python's side of a project: its packages, their imports, and the modules its build makes."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import PurePosixPath

from flashbench.preflight.source.cmake import Target, is_cmake, targets
from flashbench.preflight.source.lines import line_of
from flashbench.preflight.source.listings import is_build
from flashbench.preflight.source.removed import removed_files
from flashbench.preflight.source.setup_script import ANY, NOT_PYTHON, nodes_of, script_of
from flashbench.preflight.source.tree import SourceTree, is_test

_MESON = re.compile(r"\.extension_module\s*\(\s*['\"](\w+)['\"]")
_IMPORT = re.compile(
    r"[ \t]*(?:from[ \t]+(?P<of>[.\w]+)[ \t]+import[ \t]+(?P<names>\([^()]*\)|[^\n#;(]+)"
    r"|import[ \t]+(?P<modules>[\w., \t]+))"
)


@dataclass(frozen=True)
class BuiltModules:
    """Modules the build makes, each with its place. unknown: why there may be others."""

    modules: dict[str, str]
    unknown: str = ""

    @property
    def last(self) -> set[str]:
        """Module names without their packages."""
        return {name.rpartition(".")[2] for name in self.modules}


@dataclass(frozen=True, slots=True)
class Import:
    """`name` of `package`; a name that `from . import name` may take for a module counts too."""

    file: str
    line: int
    package: str
    name: str


@lru_cache(maxsize=1)
def built_by(tree: SourceTree) -> dict[str, BuiltModules]:
    """Built modules by build file."""
    return {file: _built(tree, file) for file in tree.build_files if is_build(file)}


@lru_cache(maxsize=1)
def built(tree: SourceTree) -> BuiltModules:
    """Modules of all build files."""
    found = built_by(tree).values()
    modules = {name: place for one in found for name, place in one.modules.items()}
    # Cython compiles a .pyx to a module of the same name.
    modules |= {PurePosixPath(file).stem: file for file in tree.files if file.endswith(".pyx")}
    return BuiltModules(modules, next((one.unknown for one in found if one.unknown), ""))


def _built(tree: SourceTree, file: str) -> BuiltModules:
    text = tree.read(file).text
    if file.endswith(".py"):
        try:
            named = script_of(tree, file).modules()
        except NOT_PYTHON:
            return BuiltModules({}, f"{file} cannot be read")
        unknown = next((one for one in named if ANY in one.text), None)
        reason = f"{file}:{unknown.line} computes the name of a module" if unknown else ""
        modules = {one.text: f"{file}:{one.line}" for one in named if ANY not in one.text}
        return BuiltModules(modules, reason)
    if is_cmake(file):
        made = targets(tree, file)
    else:
        made = tuple(
            Target(match[1], line_of(text, match.start()), module=True)
            for match in _MESON.finditer(text)
        )
    modules = {one.name: f"{file}:{one.line}" for one in made if one.module and one.name}
    others = (one.line for one in made if not (one.module and one.name))
    line = next(others, 0)
    reason = f"{file}:{line} may make a module of another name" if line else ""
    return BuiltModules(modules, reason)


class Packages:
    """Packages of a tree, by dotted name."""

    def __init__(self, tree: SourceTree) -> None:
        self.tree = tree
        self._files = frozenset(tree.files)
        self.folders: dict[str, list[str]] = defaultdict(list)
        self._names: dict[str, str] = {}
        self._imports: dict[str, list[Import]] = {}
        for file in tree.files:
            if file.endswith("/__init__.py"):
                folder = file.removesuffix("/__init__.py")
                self._names[folder] = self._dotted(folder)
                self.folders[self._names[folder]].append(folder)

    def imports(self) -> Iterator[Import]:
        """What the project's modules, tests aside, import from its packages."""
        for file in self.tree.files:
            if file.endswith(".py") and not is_build(file) and not is_test(file):
                yield from self.imports_of(file)

    def imports_of(self, file: str) -> list[Import]:
        """What one module imports from the project's packages."""
        if file not in self._imports:
            text, found = self.tree.read(file).text, dict[Import, None]()
            at, line, last = text.find("import"), 1, 0
            while at >= 0:  # from word to word, ten times as fast as from line to line
                begun = text.rfind("\n", 0, at) + 1
                if (match := _IMPORT.match(text, begun)) is not None:
                    line += text.count("\n", last, begun)
                    last = begun
                    for package, name in self._imported(file, match):
                        found[Import(file, line, package, name)] = None
                at = text.find("import", at + 1 if match is None else max(at + 1, match.end()))
            self._imports[file] = list(found)
        return self._imports[file]

    def outermost(self) -> list[str]:
        """The `__init__` of each package that is in no other."""
        folders = sorted(folder for folder, name in self._names.items() if "." not in name)
        return [f"{folder}/__init__.py" for folder in folders]

    def lacks(self, one: Import) -> bool:
        """Whether no module, package or name of this package can satisfy the import."""
        return all(
            not self._has_module(folder, one.name) and not self._binds(folder, one.name)
            for folder in self.folders.get(one.package, ())
        )

    @cached_property
    def top(self) -> set[str]:
        """First names of packages and modules at any depth."""
        modules = {PurePosixPath(file).stem for file in self._files if file.endswith(".py")}
        return modules | {part for file in self._files for part in PurePosixPath(file).parts[:-1]}

    def _imported(self, file: str, match: "re.Match[str]") -> Iterator[tuple[str, str]]:
        """Yield each package and name an import may need: `from a.b import c` needs b of a, and c
        of a.b. A name outside packages has the package ""."""
        if match["modules"]:
            for entry in match["modules"].split(","):
                yield from self._path(entry.split()[0] if entry.split() else "")
            return
        of = match["of"]
        entries = match["names"].strip("()").replace("\n", " ").split(",")
        words = (entry.partition("#")[0].split() for entry in entries)
        names = [one[0] for one in words if one and one[0].isidentifier()]
        if of.startswith("."):
            level, rest = len(of) - len(of.lstrip(".")), of.lstrip(".")
            folder = file.rsplit("/", level)[0] if level <= file.count("/") else ""
            if folder not in self._names:  # no package, or one without an __init__
                yield from (("", name) for name in ([rest] if rest else names) if "." not in name)
                return
            of = ".".join(filter(None, (self._names[folder], rest)))
        yield from self._path(of)
        if of in self.folders:
            yield from ((of, name) for name in names)

    def _path(self, dotted: str) -> Iterator[tuple[str, str]]:
        package, _, name = dotted.rpartition(".")
        if name and (not package or package in self.folders):
            yield package, name

    def _dotted(self, folder: str) -> str:
        parts = folder.split("/")
        first = len(parts) - 1
        while first > 0 and "/".join([*parts[:first], "__init__.py"]) in self._files:
            first -= 1
        return ".".join(parts[first:])

    def _has_module(self, folder: str, name: str) -> bool:
        place = f"{folder}/{name}"
        if any(f"{place}{end}" in self._files for end in (".py", ".pyi", ".pyx", "/__init__.py")):
            return True
        return (self.tree.root / place).is_dir() or (self.tree.root / f"{place}.py").exists()

    def _binds(self, folder: str, name: str) -> bool:
        """Whether a package's `__init__` binds a name, or may bind any."""
        bound = self._bound(folder)
        return bound is None or name in bound

    def _bound(self, folder: str) -> frozenset[str] | None:
        return bound_names(self.tree, f"{folder}/__init__.py")


@lru_cache(maxsize=4096)
def bound_names(tree: SourceTree, file: str) -> frozenset[str] | None:
    """Names a module defines, or imports from outside its own package; None if the text does not
    tell them all."""
    text = tree.read(file).text
    try:
        nodes = nodes_of(text)
    except NOT_PYTHON:
        return None
    found = set()
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
            if node.id == "__path__":
                return None
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = {one.asname or one.name.partition(".")[0] for one in node.names}
            own = isinstance(node, ast.ImportFrom) and node.level == 1 and node.module is None
            found |= {one.asname for one in node.names if one.asname} if own else names
    dynamic = {"__getattr__", "*"} & found or "globals()" in text or "setattr(" in text
    return None if dynamic or "sys.modules" in text else frozenset(found)


@lru_cache(maxsize=1)
def packages_of(tree: SourceTree) -> Packages:
    """Share one instance among all checks of a tree."""
    return Packages(tree)


def lost_module(tree: SourceTree, one: Import) -> str:
    """The file of an imported module that git had; "" if there is none."""
    removed = removed_files(tree)
    return next((file for file in files_of(tree, one) if file in removed), "")


def files_of(tree: SourceTree, one: Import) -> Iterator[str]:
    """Where an imported module may be."""
    for folder in packages_of(tree).folders.get(one.package, ()):
        yield f"{folder}/{one.name}.py"
        yield f"{folder}/{one.name}/__init__.py"
