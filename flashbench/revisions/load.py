"""Load a revision's callable beside those of other revisions, and verify that it is its own."""

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from flashbench.builds.content import libraries, library_hash
from flashbench.candidates import Loaded
from flashbench.errors import NotMeasuredError
from flashbench.inputs import reason
from flashbench.revisions import elf, jit, outside
from flashbench.revisions.isolated_imports import IsolatedModules
from flashbench.revisions.proof import Witness, mapped_files
from flashbench.runfile import Candidate

# Kept for the life of the process: their functions are being measured.
_kept: list[IsolatedModules] = []


@dataclass(frozen=True)
class LoadedCallable:
    """A callable of an import root, and the modules imported from there on the way."""

    call: Callable[..., Any]
    modules: dict[str, ModuleType]
    witness: Witness


def load_callable(directory: Path, spec: str, tree: str = "") -> LoadedCallable:
    """Import `module:function` from the import root `directory`, beside loaded revisions.

    tree: the project's working tree; importing from it is an error; empty: unknown. Raises
    NotMeasuredError if it cannot be imported, has no such function, or would run code of another
    import root.
    """
    module_name, _, function_name = spec.partition(":")
    isolated = IsolatedModules(directory, module_name.partition(".")[0])
    before, mapped = set(sys.modules), mapped_files()
    with isolated.lent():
        try:
            module = isolated.load(module_name)
            function = getattr(module, function_name, None)
        except (Exception, SystemExit) as error:  # whatever a revision's modules raise on import
            line = " ".join(str(error).split())
            raise NotMeasuredError(
                f"{module_name} cannot be imported: {type(error).__name__}: {line}"
            ) from error
    if isinstance(function, ModuleType):  # a submodule of that name hides the function
        function = getattr(function, function_name, None)
    if not callable(function):
        raise NotMeasuredError(f"no function {module_name}.{function_name}")
    _refuse_working_tree(isolated, tree, before, mapped)
    _refuse_borrowed_library(directory)
    for name, loaded in isolated.modules.items():
        file = getattr(loaded, "__file__", None)
        if file and not Path(file).resolve().is_relative_to(directory.resolve()):
            raise NotMeasuredError(
                f"{name} was not loaded from the revision but from {file}: something in this "
                "process caches modules by name"
            )
    _kept.append(isolated)
    return LoadedCallable(function, dict(isolated.modules), Witness(isolated, _kept, tree))


def load_copy(
    directory: Path, copies: Path, candidate: Candidate, *, alone: bool, tree: str = ""
) -> Loaded:
    """Load a candidate from a new copy of its import root in `copies`, as each launch does.

    The copy's place in memory and on disk is then new in each launch instead of sticking to one
    revision. If it compiled extensions itself, these are rewritten instead: torch would compile
    them again for another path. alone: no other revision is loaded in this process. Raises
    NotMeasuredError as `load_callable`, and if the libraries of the copy are not those that were
    built.
    """
    if not alone:
        return _loaded(_copied(directory, copies), copies, candidate, alone=False, tree=tree)
    jit.keep(directory)
    if not jit.is_compiled_in_place(directory):
        return _loaded(_copied(directory, copies), copies, candidate, alone=True, tree=tree)
    with jit.alone(directory):
        return _loaded(directory, copies, candidate, alone=True, tree=tree)


def _loaded(place: Path, copies: Path, candidate: Candidate, *, alone: bool, tree: str) -> Loaded:
    if library_hash(place) != candidate.build.library_hash:
        raise NotMeasuredError(
            f"the library in {place} is not the one that was built; remove it and build again"
        )
    if not alone:
        elsewhere = [path for path in mapped_files() if not Path(path).is_relative_to(copies)]
        elf.make_ordinary(libraries(place), elsewhere)
    loaded = load_callable(place, candidate.spec, tree)
    if alone:
        loaded.witness.isolated.stay()
    return Loaded(candidate, loaded.call, disproof=loaded.witness.disproof)


def _copied(directory: Path, copies: Path) -> Path:
    place = Path(tempfile.mkdtemp(dir=copies)) / "site"
    try:
        shutil.copytree(directory, place, symlinks=True, copy_function=_link_or_copy)
    except (OSError, shutil.Error) as error:
        raise NotMeasuredError(f"the built revision cannot be copied: {reason(error)}") from None
    return place


def _link_or_copy(source: str, target: str) -> None:
    """Give a Python source another name, copy anything else: there are hundreds of sources, and
    what runs of them lies elsewhere in each process. Code that rewrites one in place rewrites the
    cached one, which the next command finds out (`import_root.is_whole`)."""
    if source.endswith(".py"):
        with contextlib.suppress(OSError):  # a file system without links
            return os.link(source, target)
    shutil.copy2(source, target)
    return None


def left_behind() -> str:
    """Describe what revisions left that another could find by name: a library beside their
    extension modules, or a module not known to be theirs. Empty if there is nothing."""
    for isolated in _kept:
        own = {getattr(module, "__file__", None) for module in isolated.modules.values()}
        for file in sorted(mapped_files() - own):
            if isolated.holds(file):
                return f"the library {Path(file).name} is loaded beside the extension modules"
        for name, module in list(sys.modules.items()):
            if isolated.owns(name) or isolated.holds(
                name
            ):  # a path: another name of an extension module
                continue
            if isolated.holds(str(getattr(module, "__file__", None))):
                return f"the module {name} stays in sys.modules"
    return ""


def _refuse_working_tree(
    isolated: IsolatedModules, tree: str, before: set[str], mapped: set[str]
) -> None:
    """Raises NotMeasuredError if the import brought in code of the working tree.

    before, mapped: the modules and mapped files from before the import.
    """
    new = [module for name, module in list(sys.modules.items()) if name not in before]
    files = [str(getattr(module, "__file__", None)) for module in new]
    for file in [*files, *sorted(mapped_files() - mapped)]:
        if not isolated.holds(file) and _is_code(file) and outside.lies_in(tree, file):
            raise NotMeasuredError(f"it imports {outside.describe(tree, file)}")


def _is_code(file: str) -> bool:
    return Path(file).suffix == ".py" or ".so" in Path(file).suffixes


def _refuse_borrowed_library(directory: Path) -> None:
    """The dynamic linker loads one library per name: the second revision would get the first's.

    Raises NotMeasuredError if a loaded library of `directory` needs one that is there too, but was
    loaded from another import root.
    """
    mapped = mapped_files()
    elsewhere = {Path(path).name for isolated in _kept for path in mapped if isolated.holds(path)}
    own = {path: str(path.resolve()) in mapped for path in libraries(directory)}
    for path, is_loaded in own.items():
        if is_loaded or path.name not in elsewhere:
            continue
        wanted = os.fsencode(path.name.partition(".so")[0]) + b".so"
        if any(wanted in other.read_bytes() for other, there in own.items() if there):
            raise NotMeasuredError(
                f"{path.name} of another revision is in its place: two revisions in one process "
                "cannot both load a shared library of that name; link it statically"
            )
