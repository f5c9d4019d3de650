"""A revision, built and checked, as a directory that a worker process can import from.

In the cache, beside the builds (flashbench/build/builder.py):

    site-KEY/site.json   the record (`_Site`)
    site-KEY/site/...    the import root: the revision's own files and what its build delivered

A build is shared by revisions with equal sources, a site by those with equal Python as well.
"""

import hashlib
import os
import shutil
from copy import copy
from dataclasses import dataclass
from pathlib import Path

import msgspec

from flashbench.build import Build, Status, build
from flashbench.build.builder import TIMEOUT_SECONDS, locked
from flashbench.build.command import Command
from flashbench.build.content import content_hash, library_hash
from flashbench.build.recipe import Recipe
from flashbench.errors import NotMeasuredError
from flashbench.project.check import check
from flashbench.project.revision import Revision
from flashbench.project.scratch import scratch
from flashbench.project.settings import Project
from flashbench.project.tree import export
from flashbench.runfile import BuildIdentity, Candidate


@dataclass(frozen=True)
class Built:
    """What became of preparing one revision.

    site: where its callable is imported from; None when status is not "built". reason: the first
    lines that say why not. notes: what the revision lacked, one line each.
    """

    project: Project
    revision: Revision
    status: Status
    reason: str
    build: Build
    identity: BuildIdentity
    site: Path | None = None
    notes: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        """One line: the revision, what became of it and the first line that says why."""
        first = self.reason.partition("\n")[0]
        words = f"{self.status}: {first}" if first else self.status
        return "; ".join([f"{self.revision.label}: {words}", *self.notes])

    def require(self) -> Path:
        """The site; NotMeasuredError (exit code 4) with the headline when there is none."""
        if self.site is None:
            raise NotMeasuredError(self.headline)
        return self.site

    def candidate(self, name: str) -> Candidate:
        """The revision's callable as a candidate; its site goes into the worker's Setup."""
        return Candidate(name=name, spec=self.project.callable, build=copy(self.identity))


class _Site(msgspec.Struct, kw_only=True):
    """The record of a site."""

    status: Status
    reason: str = ""
    library_hash: str = ""


def prepare(
    project: Project,
    revision: Revision,
    cache: Path,
    *,
    retry_failed: bool = False,
    timeout: float = TIMEOUT_SECONDS,
) -> Built:
    """Build a revision, or find that this was done before, and check that its callable imports.

    A revision that does not build is an answer, not an exception. What it contains runs in its
    build, and in the process that imports it, alone. Several processes may call this at once.
    timeout: seconds of the build. Raises NotMeasuredError when the revision cannot be read from
    git or the cache cannot be written.
    """
    try:
        cache.mkdir(parents=True, exist_ok=True)
        # Inside a working tree the cache is no part of it.
        (cache / ".gitignore").write_text("*\n")
        with scratch(cache) as directory:
            checkout = directory / "tree"
            exported = export(project.repository, revision, checkout)
            everything = content_hash(checkout)
            made = build(
                checkout,
                cache,
                recipe=_recipe(project),
                retry_failed=retry_failed,
                timeout=timeout,
            )
            site, found = None, _Site(status=made.status, reason=made.reason)
            if made.status == "built":
                site, found = _site(project, checkout, directory / "site", made, cache)
    except OSError as error:
        raise NotMeasuredError(
            f"the build cache {cache} cannot be used ({error}); set FLASHBENCH_CACHE"
        ) from None
    return Built(
        project=project,
        revision=revision,
        status=found.status,
        reason=found.reason,
        build=made,
        identity=BuildIdentity(
            revision=revision.text,
            commit=revision.commit,
            dirty=exported.dirty,
            # Our library states the hash of its sources; elsewhere all files tell two apart.
            source_hash=made.source_hash if project.build is None else everything,
            library_hash=found.library_hash,
        ),
        site=site if found.status == "built" else None,
        notes=tuple(exported.notes),
    )


def _recipe(project: Project) -> Recipe | None:
    if project.build is None:
        return None
    return Command(
        command=project.build,
        directory=project.directory,
        path=project.path,
        sources=project.sources,
        variables=project.environment,
    )


def _site(
    project: Project, checkout: Path, assembled: Path, made: Build, cache: Path
) -> tuple[Path, _Site]:
    """Put the revision's files and its build together, once; check that the callable imports."""
    _assemble(project, checkout / project.directory / project.path, assembled, made)
    described = [project.callable, made.key, content_hash(assembled)]
    key = hashlib.sha256(msgspec.json.encode(described)).hexdigest()[:32]
    directory = cache / f"site-{key}"
    with locked(cache / f"site-{key}.lock"):
        record = _read(directory)
        if record is None:
            status, reason = check(assembled, project.callable, assembled.with_name("log"))
            record = _Site(status=status, reason=reason, library_hash=library_hash(assembled))
            shutil.rmtree(directory, ignore_errors=True)
            kept = assembled.with_name("kept")
            kept.mkdir()
            assembled.rename(kept / "site")
            (kept / "site.json").write_bytes(msgspec.json.encode(record))
            kept.rename(directory)
    return directory / "site", record


def _read(directory: Path) -> _Site | None:
    try:
        record = msgspec.json.decode((directory / "site.json").read_bytes(), type=_Site)
        intact = record.library_hash == library_hash(directory / "site")
    except (OSError, msgspec.DecodeError):
        return None
    return record if intact and record.status == "built" else None


def _assemble(project: Project, root: Path, target: Path, made: Build) -> None:
    """The import root of a site: what can be imported from `root`, and what the build delivered.

    Directories at the root that are no package (sources, documentation) are left out, unless the
    callable's module lies there or the build delivered something into them.
    """
    package = project.callable.partition(":")[0].partition(".")[0]
    target.mkdir()
    if root.is_dir():
        for entry in sorted(root.iterdir()):
            if entry.is_symlink() or not entry.is_dir():
                shutil.copy2(entry, target / entry.name, follow_symlinks=False)
            elif entry.name == package or (entry / "__init__.py").is_file():
                shutil.copytree(entry, target / entry.name, symlinks=True)
    delivered = Path(made.directory) / "lib"
    for folder, _, files in os.walk(delivered):
        for name in files:
            source = Path(folder) / name
            place = target / source.relative_to(delivered)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.unlink(missing_ok=True)
            shutil.copy2(source, place)
