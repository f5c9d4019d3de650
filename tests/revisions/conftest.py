"""What tests of revisions share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from revisions.repository import Prepared, Repository

from flashbench.revisions import Built, read, resolve
from flashbench.revisions.check import Checker
from flashbench.revisions.prepare import prepare


@pytest.fixture(scope="module")
def prepared() -> Iterator[Prepared]:
    """Prepare a revision of a repository's project. One process, which imports torch once, checks
    what a whole file builds."""
    with Checker() as checker:

        def one(repository: Repository, cache: Path, text: str = "HEAD") -> Built:
            project = read(repository.root)
            return prepare(project, resolve(project.repository, text), cache, checker=checker)

        yield one
