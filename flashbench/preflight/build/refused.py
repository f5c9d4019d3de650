"""Launches in a source tree that the chips of a build refuse."""

from collections.abc import Sequence
from pathlib import Path

from flashbench.preflight.build.block_size import too_large
from flashbench.preflight.build.resources import KernelUse
from flashbench.preflight.build.shared_memory import dynamic
from flashbench.preflight.finding import CannotCheck, Finding
from flashbench.preflight.source.tree import read_tree


def refused_launches(root: Path, kernels: Sequence[KernelUse] | CannotCheck) -> list[Finding]:
    """Find blocks of too many threads and dynamic shared memory beyond every chip's limit, as far
    as the text states them. kernels: of the build, or why they are unknown."""
    known = () if isinstance(kernels, CannotCheck) else kernels
    tree = read_tree(root)
    looked = [*dynamic(tree, known), *too_large(tree, known)]
    return [one for one in looked if isinstance(one, Finding) and one.severity == "error"]
