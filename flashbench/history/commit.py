"""The commit that asv is measuring, as a revision: flashbench's own extension at that commit."""

import os
from pathlib import Path

from flashbench.builds import cache_directory
from flashbench.candidates import OUR_CALLABLE
from flashbench.errors import NotMeasuredError
from flashbench.revisions import Built, Project, Revision
from flashbench.revisions.prepare import prepare

REPOSITORY = "ASV_FLASHBENCH_REPOSITORY"  # where processes of the environment find it


def installed() -> Built:
    """The commit that asv is measuring, from the build cache.

    Raises NotMeasuredError if it cannot be imported, or asv did not start this process.
    """
    try:
        repository, commit = os.environ[REPOSITORY], os.environ["ASV_COMMIT"]
    except KeyError as missing:
        raise NotMeasuredError(
            f"{missing.args[0]} is not set: a commit is measured by `asv run` in the environment "
            "of flashbench.history.asv_env"
        ) from None
    project, revision = Project(Path(repository), OUR_CALLABLE), Revision(commit, commit)
    built = prepare(project, revision, cache_directory())
    built.require()
    return built
