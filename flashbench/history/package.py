"""The package of a commit that asv installed, beside the flashbench that measures."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from flashbench.errors import NotMeasuredError
from flashbench.revisions.load import load_site

PACKAGE = "flashbench"


@dataclass(frozen=True)
class CommitPackage:
    """A commit's package, loaded: its public function and its extension module."""

    attention: Callable[..., Any]
    extension: ModuleType | None


def load(site: Path) -> CommitPackage:
    """Import the package that lies in the directory `site`.

    Raises NotMeasuredError when it cannot be imported, is not there or has no `attention`.
    """
    try:
        loaded = load_site(site, f"{PACKAGE}:attention")
    except NotMeasuredError as error:
        raise NotMeasuredError(f"the commit's package: {error}") from error
    return CommitPackage(loaded.call, loaded.modules.get(f"{PACKAGE}._C"))
