"""Record the outcomes of builds beside asv's results, so that a site published on any machine shows
why a commit has no numbers."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from flashbench.builds import Build
from flashbench.history import commit_record, machines, names
from flashbench.revisions import Built
from flashbench.runfile import RunFile


def keep_builds(builds: Iterable[Built], run: RunFile, results: Path, machine: str | None) -> None:
    """Write one record per commit, for the measured device; replaces earlier records.

    run: has the working builds as candidates. machine: as in `keep`. Raises OSError.
    """
    name = machines.choose(machine, run.environment.hostname, "").name
    environment = f"{names.run_environment(run.environment.python)}-{run.cases[0].device}"
    wrong = commit_record.wrong_results(run)
    for built in builds:
        commit = built.revision.commit
        kept = commit_record.of_built(built, environment, wrong.get(commit, ""))
        kept.build = _elsewhere(kept.build)
        commit_record.write(commit_record.path_of(results, name, commit, environment), kept)


def _elsewhere(build: Build) -> Build:
    """The build without this machine's paths, which mean nothing elsewhere."""
    tools = {name: value for name, value in build.toolchain.items() if not value.startswith("/")}
    return msgspec.structs.replace(build, directory="", reused=False, toolchain=tools)
