"""A revision's callable, loaded beside those of other revisions, and proven to be its own."""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from flashbench.build.content import libraries, library_hash
from flashbench.errors import NotMeasuredError
from flashbench.project import elf
from flashbench.project.site import Site
from flashbench.runfile import Candidate

# Sites stay as long as the process: their functions are being measured.
_kept: list[Site] = []


@dataclass(frozen=True)
class LoadedSite:
    """A callable of a site, and the modules that were imported from there on the way."""

    call: Callable[..., Any]
    modules: dict[str, ModuleType]


def load_site(directory: Path, spec: str) -> LoadedSite:
    """Import `module:function` from the import root `directory`, beside what is loaded already.

    Raises NotMeasuredError when it cannot be imported, has no such function, or would run code of
    another site.
    """
    module_name, _, function_name = spec.partition(":")
    site = Site(directory, module_name.partition(".")[0])
    with site.lent():
        try:
            module = site.load(module_name)
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
    _refuse_borrowed_library(directory)
    for name, loaded in site.modules.items():
        file = getattr(loaded, "__file__", None)
        if file and not Path(file).resolve().is_relative_to(directory.resolve()):
            raise NotMeasuredError(
                f"{name} was not loaded from the revision but from {file}: something in this "
                "process keeps modules by their name"
            )
    _kept.append(site)
    return LoadedSite(function, dict(site.modules))


def load_copy(directory: Path, copies: Path, candidate: Candidate) -> Callable[..., Any]:
    """Load a candidate from a new copy of its site, as each launch does.

    The copy's place in memory and on disk is then drawn anew each launch rather than sticking to
    one revision. Raises NotMeasuredError as `load_site`, and when the libraries of the copy are
    not those that were built.
    """
    place = Path(tempfile.mkdtemp(dir=copies)) / "site"
    try:
        shutil.copytree(directory, place, symlinks=True)
    except (OSError, shutil.Error) as error:
        raise NotMeasuredError(f"the built revision cannot be copied: {error}") from None
    if library_hash(place) != candidate.build.library_hash:
        raise NotMeasuredError(
            f"the library in {directory} is not the one that was built; remove it and build again"
        )
    loaded_elsewhere = [path for path in _mapped() if not Path(path).is_relative_to(copies)]
    elf.make_ordinary(libraries(place), loaded_elsewhere)
    return load_site(place, candidate.spec).call


def _mapped() -> set[str]:
    """The files in this process's memory, libraries before all; empty where that is not told."""
    if sys.platform != "linux":
        return set()
    lines = Path("/proc/self/maps").read_bytes().splitlines()
    fields = [line.split(maxsplit=5) for line in lines]
    return {os.fsdecode(field[5]) for field in fields if len(field) == 6}


def _refuse_borrowed_library(directory: Path) -> None:
    """The dynamic linker loads one library a name: the second revision would get the first's.

    Raises NotMeasuredError if a loaded library of `directory` wants one that lies there too, but
    was loaded from another site.
    """
    mapped = _mapped()
    elsewhere = {
        Path(path).name
        for site in _kept
        for path in mapped
        if Path(path).is_relative_to(site.directory.resolve())
    }
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
