"""The recipe of any project: its own command, run in a private copy of the checkout."""

import filecmp
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flashbench.builds import running, toolchain
from flashbench.builds.content import BUILD_SUFFIXES, content_hash, library_hash
from flashbench.builds.recipe import BuildResult, failure, timed_out

# Compilers' large intermediate files, which no import needs.
_INTERMEDIATE = (".o", ".obj", ".a", ".d", ".pyc", ".ninja_deps", ".ninja_log")
_INTERMEDIATE_DIRECTORIES = ("CMakeFiles", "__pycache__")


@dataclass(frozen=True)
class Command:
    """Runs `command` in `directory` of the copy, and keeps what it creates or changes under `path`.

    directory: relative to the checkout; path and sources: relative to `directory`. No command:
    there is nothing to build. adapter: the hash of what each checkout was given besides its own.
    """

    command: tuple[str, ...]
    directory: str
    path: str
    sources: tuple[str, ...]
    variables: Sequence[str]
    requires: Sequence[str] = ()
    adapter: str = ""

    @property
    def key(self) -> Sequence[object]:
        # Extensions that include torch's headers are of one torch.
        torch = toolchain.installed("torch")
        given = (self.adapter,) if self.adapter else ()
        return ("command", self.command, self.directory, self.path, torch, *given)

    def source_hash(self, checkout: Path) -> str:
        """The hash of the files that determine the build; a missing source is hashed as missing."""
        paths = [str(Path(self.directory) / source) for source in self.sources]
        if paths:
            named = (file for file in checkout.rglob("*") if file.name.endswith(BUILD_SUFFIXES))
            paths += [str(file.relative_to(checkout)) for file in named]
        return content_hash(checkout, paths)

    def make(self, checkout: Path, work: Path, timeout: float) -> BuildResult:
        tree, lib = work / "work" / "tree", work / "lib"
        shutil.copytree(checkout, tree, symlinks=True)
        if not _is_inside(tree, self.directory):
            return BuildResult("build error", f"the commit has no directory {self.directory}")
        if self.command:
            failed = self._run(tree, work, timeout)
            if failed:
                return failed
        root = Path(self.directory) / self.path
        if not _is_inside(tree, root):
            return BuildResult("build error", f"path {self.path!r} is not there after the build")
        lib.mkdir()
        try:
            for made in _changed(tree, checkout, root):
                place = lib / made.relative_to(tree / root)
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(made, place)
        except RecursionError:
            return BuildResult(
                "build error", "the build made directories that are nested too deeply"
            )
        return BuildResult("built", library="lib", library_hash=library_hash(lib))

    def _run(self, tree: Path, work: Path, timeout: float) -> BuildResult | None:
        program, *arguments = self.command
        if program in ("python", "python3"):
            program = sys.executable
        environment = running.environment()
        # Hide any repository around the cache, or that git was called from, from the build.
        environment["GIT_CEILING_DIRECTORIES"] = str(tree.parent)
        for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
            environment.pop(name, None)
        directory, log = tree / self.directory, work / "log.txt"
        try:
            code = running.run([program, *arguments], directory, log, environment, timeout)
        except OSError as error:
            return BuildResult("build error", f"{program}: cannot be run: {error.strerror}")
        if code is None:
            return timed_out(timeout)
        if code:
            failed = failure(program, code, work)
            return replace(failed, reason=failed.reason.replace(f"{tree}/", ""))
        return None


def _is_inside(tree: Path, directory: str | Path) -> bool:
    """Whether it is a directory inside the tree, not a link that leads out of it."""
    found = Path(os.path.realpath(tree / directory))
    return found.is_dir() and found.is_relative_to(tree.resolve())


def _changed(tree: Path, before: Path, root: Path) -> Iterator[Path]:
    """Files under `root` of the tree that the build created or changed."""
    for directory, names, files in os.walk(tree / root, followlinks=True):
        names[:] = [name for name in names if name not in _INTERMEDIATE_DIRECTORIES]
        # The only links followed are packages at the import root.
        names[:] = [
            name
            for name in names
            if not (Path(directory) / name).is_symlink()
            or (Path(directory) == tree / root and _is_inside(tree, root / name))
        ]
        for name in sorted(files):
            path = Path(directory) / name
            old = before / path.relative_to(tree)
            if name.endswith(_INTERMEDIATE) or not path.is_file():
                continue
            if path.is_symlink() and not path.resolve().is_relative_to(tree.resolve()):
                continue  # belongs to the machine, not to the build
            if not old.is_file() or not filecmp.cmp(path, old, shallow=False):
                yield path
