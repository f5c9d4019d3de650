"""Build revisions for commands that measure them, and report on stderr."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flashbench.cli.measuring import tell_still

if TYPE_CHECKING:
    from flashbench.revisions import Project
    from flashbench.revisions.preparer import Preparer


def preparer_of(
    project: "Project",
    options: dict[str, Any],
    *,
    cases: Sequence[str] = (),
    flag: str = "--build-timeout",
) -> "Preparer":
    """A Preparer with these options. cases: to check; flag: the option of the time-out."""
    from flashbench.builds import cache_directory
    from flashbench.revisions.preparer import Preparer, default_jobs

    timeout = options["build_timeout"]
    return Preparer(
        project,
        cache_directory(),
        jobs=options["jobs"] or default_jobs(),
        retry_failed=options["retry_build"],
        timeout=timeout,
        cases=cases,
        still=tell_still(timeout, flag),
    )
