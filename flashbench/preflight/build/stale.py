"""Find libraries in the working tree that were built from other sources than lie there."""

import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from time import monotonic

from flashbench import source_hash
from flashbench.builds import recipe, running
from flashbench.builds.missing_symbol import first_line
from flashbench.preflight.build.subject import BuildSubject
from flashbench.preflight.finding import CannotCheck, CannotRepair, Finding

_OWN_BUILD = ("python", "setup.py", "build_ext", "--inplace")
# For projects whose settings do not say how to build.
_BUILD_BY_PIP = "python -m pip install --no-build-isolation --no-deps -e ."
_MADE = re.compile(r"(^|/)(build[^/]*|dist|\.[^/]*|site-packages)/")
_OF_ONE_PYTHON = re.compile(r"\.(cpython-|pypy)[^/]*\.so$")


def stale_library(subject: BuildSubject) -> Iterator[Finding]:
    """Find a library older than one of its sources; for ours, one that states other sources.

    Only the repair builds anything in the working tree.
    """
    try:
        command = subject.project.build or ()
        sources, import_root = subject.project.sources, subject.project.import_root
    except CannotCheck:
        command, sources, import_root = (), (), subject.tree.root
    if subject.is_ours:
        command, found = _OWN_BUILD, dict(_of_other_sources(subject.tree.root))
    else:
        found = dict(_older(subject, sources, import_root))
    if not _libraries(subject.tree.root, import_root):
        raise CannotCheck("no library for this Python is in the working tree")
    repair = partial(_rebuild, subject, command, list(found)) if command else None
    for library, why in found.items():
        yield Finding(
            library.relative_to(subject.tree.root).as_posix(),
            why,
            shlex.join(command) if command else _BUILD_BY_PIP,
            "warning",
            repair,
        )


def _older(
    subject: BuildSubject, sources: tuple[str, ...], import_root: Path
) -> Iterator[tuple[Path, str]]:
    """Find libraries older than a unit or header, of `sources` if given."""
    root = subject.tree.root
    units = [
        name
        for name in subject.tree.units + subject.tree.headers
        if not sources or any(Path(name).is_relative_to(source) for source in sources)
    ]
    paths = [root / name for name in units if (root / name).exists()]
    if not paths:
        raise CannotCheck("no sources of C++ or CUDA")
    newest, source = max((path.stat().st_mtime, path) for path in paths)
    for library in _libraries(root, import_root):
        if library.stat().st_mtime < newest:
            yield library, f"is older than {source.relative_to(root)}"


def _of_other_sources(root: Path) -> Iterator[tuple[Path, str]]:
    """Find our library if it states another source hash: a checkout makes old files look new."""
    now = source_hash.of_tree(root)
    for library in _libraries(root, root):
        with tempfile.TemporaryDirectory() as work:
            stated = recipe.load(library, Path(work))
        if isinstance(stated, str):
            yield library, f"does not load: {first_line(stated)}"
        elif stated.get("source_hash") != now:
            yield library, "was built from other sources than those here"


def _libraries(root: Path, import_root: Path) -> list[Path]:
    """Extension modules in a checkout that an import by this Python finds."""
    found = {
        path
        for place in (root, import_root)
        for pattern in ("*/*.so", "*.so")
        for path in place.glob(pattern)
    }
    return sorted(
        path
        for path in found
        if not _MADE.search(path.relative_to(root).as_posix())
        and (path.name.endswith(EXTENSION_SUFFIXES[0]) or not _OF_ONE_PYTHON.search(path.name))
    )


def _rebuild(subject: BuildSubject, command: tuple[str, ...], libraries: list[Path]) -> str:
    """Run the project's own build in the working tree; report the outcome in one line."""
    program, *arguments = command
    if program in ("python", "python3"):
        program = sys.executable
    shown, begun, before = shlex.join(command), monotonic(), _times(libraries)
    directory = subject.project.repository / subject.project.directory
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        log, variables = work / "log.txt", running.environment()
        try:
            code = running.run([program, *arguments], directory, log, variables, subject.timeout)
        except OSError as error:
            raise CannotRepair(f"`{shown}` cannot be run: {error.strerror}") from None
        if code is None:
            raise CannotRepair(f"`{shown}` failed: {recipe.timed_out(subject.timeout).reason}")
        if code:
            failed = recipe.failure(program, code, work)
            raise CannotRepair(f"`{shown}` failed: {failed.status}: {first_line(failed.reason)}")
    said = f"ran `{shown}` in {monotonic() - begun:.0f} s"
    after = _times(libraries)
    # setuptools, for one, does not recompile when a header changes.
    left = [path.name for path in libraries if before[path] == after[path]]
    return f"{said}, which left {', '.join(left)} as it was: remove it first" if left else said


def _times(paths: list[Path]) -> dict[Path, int]:
    """Modification times, 0 for missing files."""
    return {path: path.stat().st_mtime_ns if path.exists() else 0 for path in paths}
