"""What the build level examines: a project's sources, and the outcome of building HEAD."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from flashbench.preflight.architectures import Setting, setting_of
from flashbench.preflight.build.fatbin import archs_of
from flashbench.preflight.build.resources import KernelUse, read_kernels
from flashbench.preflight.finding import CannotCheck
from flashbench.preflight.source.references import references_of
from flashbench.preflight.source.tree import SourceTree

if TYPE_CHECKING:
    from flashbench.revisions import Built, Project


@dataclass
class BuildSubject:
    """A project, built once, by the first check that asks. named: the checks that have found an
    error so far."""

    tree: SourceTree
    timeout: float
    named: Callable[[], frozenset[str]] = frozenset

    @cached_property
    def has_cuda(self) -> bool:
        """Whether the project has units for nvcc."""
        return any(name.endswith(".cu") for name in self.tree.units)

    @cached_property
    def project(self) -> "Project":
        """The project's settings; CannotCheck without usable ones, or without git."""
        from flashbench.errors import FlashbenchError
        from flashbench.revisions import read

        try:
            return read(self.tree.root)
        except FlashbenchError as error:
            raise CannotCheck(str(error)) from None

    @property
    def is_ours(self) -> bool:
        """Whether it is flashbench itself, which is whole without nvcc."""
        try:
            return self.project.build is None
        except CannotCheck:
            return False

    @property
    def setting(self) -> Setting:
        """Where the project says what its kernels are built for."""
        try:
            build = shlex.join(self.project.build or ())
        except CannotCheck:
            build = ""
        return setting_of(self.tree, ours=self.is_ours, build=build)

    @cached_property
    def built(self) -> "Built":
        """HEAD from a clean export, built and imported; CannotCheck without settings or git."""
        from flashbench.builds import cache_directory
        from flashbench.builds.recipe import PROBE_TIMEOUT_SECONDS
        from flashbench.errors import FlashbenchError
        from flashbench.revisions import resolve
        from flashbench.revisions.check import Checker
        from flashbench.revisions.prepare import prepare

        try:
            head = resolve(self.project.repository, "HEAD")
            # What was missing at the last failure may be installed now.
            with Checker(min(self.timeout, PROBE_TIMEOUT_SECONDS)) as checker:
                return prepare(
                    self._whole,
                    head,
                    cache_directory(),
                    timeout=self.timeout,
                    retry_failed=True,
                    checker=checker,
                )
        except FlashbenchError as error:
            raise CannotCheck(str(error)) from None

    @property
    def _whole(self) -> "Project":
        """The project, with all that its build reads among the sources: what was built from other
        build files is no answer."""
        if not self.project.sources:
            return self.project
        read = (one.file for one in references_of(self.tree) if not one.file.startswith("../"))
        known = self.project.build_inputs
        outside = [one for one in read if not any(Path(one).is_relative_to(of) for of in known)]
        return replace(self.project, sources=(*self.project.sources, *outside))

    @cached_property
    def libraries(self) -> list[Path]:
        """What the build of HEAD delivered; CannotCheck if it does not build."""
        if self.built.build.status != "built":
            raise CannotCheck("HEAD does not build")
        return sorted((Path(self.built.build.directory) / "lib").rglob("*.so"))

    @property
    def archs(self) -> tuple[str, ...] | CannotCheck:
        """Architectures the built libraries have code for, or why they are unknown."""
        try:
            return tuple(sorted(set[str]().union(*map(archs_of, self.libraries))))
        except CannotCheck as reason:
            return reason

    @cached_property
    def kernels(self) -> list[KernelUse]:
        """What the kernels of the built libraries use; CannotCheck without cuobjdump or without
        kernels."""
        if found := read_kernels(self.libraries):
            return found
        raise CannotCheck("the build has no CUDA kernels")
