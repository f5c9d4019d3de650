"""Prepare a revision: built and checked, as a directory that a worker process can import from.

In the cache, beside the builds (flashbench/builds/builder.py):

    site-KEY/site.json   the record (`ImportRecord`)
    site-KEY/site/...    the import root: the revision's own files and its build
    known/...            the build and import root of a commit's contents, without a checkout

A build is shared by revisions with equal sources, an import root by those with equal Python as
well.
"""

import datetime
import os
import shutil
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from flashbench import defaults
from flashbench.builds import Build, BuildStatus, build, commit_index, pruning, toolchain
from flashbench.builds.builder import find, is_answer
from flashbench.builds.command import Command
from flashbench.builds.recipe import OwnExtension, Recipe
from flashbench.builds.scratch import scratch
from flashbench.cost import store
from flashbench.errors import NotMeasuredError, is_out_of_files
from flashbench.revisions import adapter, git, ledger
from flashbench.revisions import import_root as roots
from flashbench.revisions.built import Built, seconds_of
from flashbench.revisions.check import Checker
from flashbench.revisions.computed import WhatIsComputed, of_project
from flashbench.revisions.export import Exported, UnreadableError, export, lacks
from flashbench.revisions.fingerprint import Contents, contents_of
from flashbench.revisions.import_root import ImportRecord
from flashbench.revisions.ledger import RevisionOutcome, Stage
from flashbench.revisions.project import Project
from flashbench.revisions.revision import Revision
from flashbench.runfile import BuildIdentity


def prepare(
    project: Project,
    revision: Revision,
    cache: Path,
    *,
    stage: Stage = "load",
    retry_failed: bool = False,
    timeout: float = defaults.BUILD_TIMEOUT_SECONDS,
    checker: Checker | None = None,
    cases: Sequence[str] = (),
) -> Built:
    """Build a revision, or find an earlier build, and check it as far as `stage`.

    A revision that does not build, or that git cannot read, is an answer, not an exception; it is
    retried when the toolchain changes, or with `retry_failed`. Its code runs only in its build and
    in the process that checks it. Several processes and threads may call this at once. timeout:
    seconds for the build. checker: to share among calls. cases: for stage "correct", the ones to
    check; none: small ones. Raises NotMeasuredError if the cache cannot be written, StoppedError
    after `running.stop_all`.
    """
    computed = of_project(project)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        # A cache inside a working tree is not part of it.
        if not (cache / ".gitignore").is_file():
            (cache / ".gitignore").write_text("*\n")
        pruning.use(cache)
        with ExitStack() as at_end:
            checker = checker or at_end.enter_context(Checker())
            work = _Preparation(
                project, revision, cache, checker, computed, stage, retry_failed, timeout, cases
            )
            began = time.monotonic()
            built = work.run(at_end)
            if not work.reused:
                built = replace(built, when=(began, time.monotonic()))
                _note_seconds(project, built)
        if not revision.worktree and built.kept and not (cases and built.import_root):
            ledger.record(cache, project.repository, built.outcome)
    except git.GitError as error:
        return _unreadable(project, revision, f"it cannot be read from git: {error}", stage)
    except UnreadableError as error:
        return _unreadable(project, revision, str(error), stage)
    except OSError as error:
        if is_out_of_files(error):
            raise
        if _is_elsewhere(error, cache):
            raise NotMeasuredError(
                f"{revision.label}: {error.filename} cannot be used ({error.strerror})"
            ) from None
        raise NotMeasuredError(
            f"the build cache {cache} cannot be used ({_described(error)}); set FLASHBENCH_CACHE"
        ) from None
    return built


def _note_seconds(project: Project, built: Built) -> None:
    """Record the seconds of the build, and of the rest, for the next estimate."""
    made, repository, seconds = built.build, str(project.repository), seconds_of([built])

    def add(costs: store.CostRecords) -> None:
        taken = 0.0 if made.reused else made.seconds
        if taken and made.status == "built":
            costs.builds.setdefault(repository, []).append(taken)
        costs.checks.setdefault(repository, []).append(round(max(0.0, seconds - taken), 3))

    store.update(add)


def _unreadable(project: Project, revision: Revision, reason: str, stage: Stage) -> Built:
    none = Build(key="", status="build error", reason=reason, source_hash="", toolchain={})
    identity = BuildIdentity(revision=revision.text, commit=revision.commit)
    outcome = _outcome(revision, none, stage, none.status, reason)
    return Built(project, revision, outcome, none, identity, kept=False)


def _outcome(
    revision: Revision,
    made: Build,
    stage: Stage,
    status: BuildStatus,
    reason: str,
    notes: tuple[str, ...] = (),
    checked: str = "",
) -> RevisionOutcome:
    return RevisionOutcome(
        commit=revision.commit,
        status=status,
        reason=reason,
        stage=stage,
        build=made.key,
        toolchain=ledger.digest(made.toolchain),
        seconds=made.seconds,
        when=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        notes=notes,
        checked=checked,
    )


def _is_elsewhere(error: OSError, cache: Path) -> bool:
    """Whether every file that the error names is outside the cache, such as in the working tree."""
    named = [Path(os.fsdecode(name)) for name in (error.filename, error.filename2) if name]
    return bool(named) and not any(path.is_relative_to(cache) for path in named)


def _described(error: OSError) -> str:
    """The error in one line; if a tree could not be copied, for its first file."""
    if isinstance(error, shutil.Error) and isinstance(error.args[0], list):
        return str(error.args[0][0][-1])
    return error.strerror or str(error)


def recipe_of(project: Project) -> Recipe:
    """How the project's revisions are built."""
    if project.build is None:
        return OwnExtension()
    return Command(
        command=project.build,
        directory=project.directory,
        path=project.path,
        sources=project.build_inputs,
        variables=project.environment,
        adapter=adapter.digest(project),
        # For a build by make or a script, these may be only what pip would need.
        requires=project.requires if project.build[:1] in (("python",), ("python3",)) else (),
    )


@dataclass
class _Preparation:
    """One call of `prepare`. It makes a checkout only to build or to assemble an import root."""

    project: Project
    revision: Revision
    cache: Path
    checker: Checker
    computed: WhatIsComputed
    stage: Stage
    retry_failed: bool
    timeout: float
    cases: Sequence[str] = ()
    exported: Exported | None = None
    notes: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()  # notes that are part of shortcut keys
    reused: bool = True  # nothing was built or checked for this call

    def run(self, at_end: ExitStack) -> Built:
        self._at_end = at_end
        contents = None
        if not self.revision.worktree:
            contents = contents_of(self.project, self.revision.commit)
            self.absent = self.notes = lacks(self.project.repository, contents.modules)
        made = self._build(contents)
        self.reused = made.reused
        if made.status != "built" or self.stage == "build":
            return self._built(made, ImportRecord(status=made.status, reason=made.reason), None)
        directory = self._import_root(contents, made)
        record = roots.checked(
            directory,
            self.project.callable,
            self.checker,
            correct=self.stage == "correct",
            retry_failed=self.retry_failed,
            cases=self.cases,
            tree=str(self.project.repository),
            operation=self.computed,
        )
        self.reused = self.reused and record.reused
        if record.status == "undefined symbol" and not record.reused:
            record = roots.located(directory, record, self._everything(), made)
        return self._built(made, record, directory / "site")

    def _build(self, contents: Contents | None) -> Build:
        recipe = recipe_of(self.project)
        shortcut: list[object] = []
        if contents is not None:
            tools = toolchain.describe(recipe.variables)
            shortcut = ["build", *recipe.key, sorted(tools.items()), contents.sources, *self.absent]
            key = commit_index.find(self.cache, shortcut)
            known = find(self.cache, key) if key else None
            if known and is_answer(known, retry_failed=self.retry_failed, timeout=self.timeout):
                return known
        made = build(
            self._everything(),
            self.cache,
            recipe=recipe,
            retry_failed=self.retry_failed,
            timeout=self.timeout,
        )
        if shortcut and made.directory and self._is_covered:
            commit_index.remember(self.cache, shortcut, made.key)
        return made

    def _import_root(self, contents: Contents | None, made: Build) -> Path:
        """The directory of the import root's record; assembles it if unknown."""
        project = self.project
        shortcut: list[object] = []
        if contents is not None:
            where = [project.callable, project.directory, project.path]
            shortcut = ["site", *where, made.key, contents.importable, *self.absent]
            key = commit_index.find(self.cache, shortcut)
            if key and roots.is_whole(self.cache / f"site-{key}"):
                return self.cache / f"site-{key}"
        if self.exported is None:
            checkout = self._checkout()
            wanted = contents.is_importable if contents else lambda name: True
            self.exported = export(project.repository, self.revision, checkout, wanted)
            adapter.put_into(project, checkout)
            self.notes = self._noted(self.exported)
        else:
            checkout = self._directory / "everything"
        key = roots.put_together(project, checkout, self._directory, made, self.cache)
        if shortcut and self._is_covered:
            commit_index.remember(self.cache, shortcut, key)
        return self.cache / f"site-{key}"

    def _everything(self) -> Path:
        """The whole checkout."""
        self._checkout()
        checkout = self._directory / "everything"
        if not checkout.is_dir():
            self.exported = export(self.project.repository, self.revision, checkout)
            adapter.put_into(self.project, checkout)
            self.notes = self._noted(self.exported)
        return checkout

    def _noted(self, exported: Exported) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*self.absent, *exported.notes]))

    @property
    def _is_covered(self) -> bool:
        """Whether the shortcut key covers all that the checkout lacks: anything else (a file in Git
        LFS) may be fetched later, which makes another build."""
        return self.notes == self.absent

    def _checkout(self) -> Path:
        if not hasattr(self, "_directory"):
            self._directory = self._at_end.enter_context(scratch(self.cache))
        return self._directory / "importable"

    def _built(self, made: Build, found: ImportRecord, import_root: Path | None) -> Built:
        status, reason = found.status, found.reason
        result = found.results.get(roots.named(self.cases, self.computed))
        if status == "built" and self.stage == "correct":
            status, reason = (result.status, result.reason) if result else ("unchecked", "")
        checked = result.checked if result else ""
        failed = status not in ("built", "unchecked", "wrong result")
        commit = "" if self.revision.worktree else self.revision.commit
        if failed and commit and (hint := adapter.hint(self.project, commit, reason)):
            first, *rest = reason.split("\n")
            reason = "\n".join([f"{first}; {hint}", *rest])
        ours = self.project.build is None
        return Built(
            project=self.project,
            revision=self.revision,
            outcome=_outcome(self.revision, made, self.stage, status, reason, self.notes, checked),
            build=made,
            identity=BuildIdentity(
                revision=self.revision.text,
                commit=self.revision.commit,
                dirty=self.exported is not None and self.exported.dirty,
                # Our library states the hash of its sources; in other projects the Python counts
                # too.
                source_hash=made.source_hash
                if ours or not found.source_hash
                else found.source_hash,
                library_hash=found.library_hash,
            ),
            import_root=import_root if found.status == "built" else None,
            reused=self.reused,
            kept=bool(made.directory) and found.kept,
        )
