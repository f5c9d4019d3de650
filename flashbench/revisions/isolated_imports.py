"""Several revisions of one project in one process, each with its own modules.

A revision's package is imported under its own name, so that its imports and its extension modules
find each other whatever the revision. It is then moved out of `sys.modules`, and the previous owner
of the name gets it back. Imports inside its functions, at call time, find its own modules again:
each of its modules has its own `__import__` in `__builtins__`, where Python's import statement
looks. `importlib.import_module` checks which function calls it. A function that imports nothing
when called is unchanged.
"""

import builtins
import importlib
import importlib.abc
import importlib.util
import os
import pkgutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.machinery import ExtensionFileLoader, ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

_plain_import_module = importlib.import_module


def _import_module(name: str, package: str | None = None) -> ModuleType:
    """`importlib.import_module`; called by an isolated module, from its import root."""
    importer = getattr(sys._getframe(1).f_builtins["__import__"], "__self__", None)
    if isinstance(importer, IsolatedModules):
        return importer.load(name, package)
    return _plain_import_module(name, package)


importlib.import_module = _import_module


class IsolatedModules:
    """The modules of one directory, kept apart from those of the same names elsewhere."""

    def __init__(self, directory: Path, package: str) -> None:
        """directory: the import root; package: the top-level name that must come from it."""
        self.directory = directory
        self.modules: dict[str, ModuleType] = {}
        names = {package} | {module.name for module in pkgutil.iter_modules([str(directory)])}
        self.names = frozenset(names - sys.stdlib_module_names)
        self._root = f"{directory.resolve()}{os.sep}"
        self._lent = False
        self._finder = _Finder(self)
        self.builtins = {**vars(builtins), "__import__": self._import}

    def owns(self, name: str) -> bool:
        return name.partition(".")[0] in self.names

    def holds(self, file: str) -> bool:
        """Whether a file, by its full path, is in this import root."""
        return file.startswith(self._root)

    def find(self, name: str, path: Sequence[str] | None) -> ModuleSpec | None:
        """The spec of one of its modules; ModuleNotFoundError rather than one from elsewhere."""
        spec = PathFinder.find_spec(name, [str(self.directory)] if path is None else path)
        if spec is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        if spec.submodule_search_locations is not None:
            # A plain list: a namespace package's own would follow sys.path.
            spec.submodule_search_locations = list(spec.submodule_search_locations)
        if type(spec.loader) is SourceFileLoader:
            spec.loader = _Loader(spec.loader.name, spec.loader.path, self.builtins)
        elif type(spec.loader) is ExtensionFileLoader:
            spec.loader = _ExtensionLoader(spec.loader.name, spec.loader.path)
        return spec

    def load(self, name: str, package: str | None = None) -> ModuleType:
        """Import a module of this import root, like `importlib.import_module`."""
        full = importlib.util.resolve_name(name, package)
        if not self.owns(full):
            return _plain_import_module(name, package)
        if full in self.modules:
            return self.modules[full]
        with self.lent():
            return _plain_import_module(full)

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Inside it, its names mean its modules in every import."""
        if self._lent:
            yield
            return
        others = self._take_out()
        sys.modules.update(self.modules)
        sys.meta_path.insert(0, self._finder)
        importlib.invalidate_caches()
        self._lent = True
        try:
            yield
        finally:
            self._lent = False
            sys.meta_path.remove(self._finder)
            self.modules = self._take_out()
            sys.modules.update(others)

    def stay(self) -> None:
        """Lend the names for the life of the process, if no other revision shares it: then
        `sys.modules` and torch.compile find this import root's modules too.

        Not if another package of that name is in use, as flashbench itself is.
        """
        if not any(self.owns(name) for name in sys.modules):
            sys.modules.update(self.modules)
            sys.meta_path.insert(0, self._finder)
            self._lent = True

    def _take_out(self) -> dict[str, ModuleType]:
        taken = {name: module for name, module in sys.modules.items() if self.owns(name)}
        for name in taken:
            del sys.modules[name]
        return taken

    def _import(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """`__import__` of this import root's modules."""
        if self._lent or not (level or self.owns(name)):
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        package = str((globals or {}).get("__package__") or "")
        full = _absolute(name, package, level) if level else name
        if (module := self.modules.get(full)) is not None:
            if not fromlist:
                return self.modules[full.partition(".")[0]]
            if all(hasattr(module, part) for part in fromlist):
                return module
        with self.lent():
            return builtins.__import__(name, globals, locals, fromlist or (), level)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, isolated: IsolatedModules) -> None:
        self._isolated = isolated

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return self._isolated.find(fullname, path) if self._isolated.owns(fullname) else None


class _Loader(SourceFileLoader):
    """Gives a module its import root's `__import__` before its first line runs."""

    def __init__(self, name: str, path: str, names: dict[str, Any]) -> None:
        super().__init__(name, path)
        self._builtins = names

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__builtins__"] = self._builtins
        super().exec_module(module)


class _ExtensionLoader(ExtensionFileLoader):
    """Gives an extension module a unique name while it is created.

    pybind11 (3.0 and later) remembers modules by the name of their spec: the second revision would
    get the first one's functions. Python finds the init function by the last part of the name.
    """

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        alias = f"{self.path}.{spec.name}"  # any unique name will do
        self._alias = ModuleSpec(alias, self, origin=spec.origin)
        return super().create_module(self._alias)

    def exec_module(self, module: ModuleType) -> None:
        spec, module.__spec__ = module.__spec__, self._alias
        try:
            super().exec_module(module)
        finally:
            module.__spec__ = spec


def _absolute(name: str, package: str, level: int) -> str:
    base = package.rsplit(".", level - 1)[0]
    return f"{base}.{name}" if name else base
