"""Record the outcomes of builds beside asv's results, so that a site made anywhere shows why a
commit has no numbers."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from flashbench.builds import Build
from flashbench.history import machines, names, record
from flashbench.revisions import Built
from flashbench.runfile import RunFile


def keep_builds(builds: Iterable[Built], run: RunFile, results: Path, machine: str | None) -> None:
    """A record a commit, of the device that was measured; what is known of it before is replaced.

    run: where the builds that work were measured, as candidates; machine: as of `keep`. Raises
    OSError.
    """
    name = machines.choose(machine, run.environment.hostname, "").name
    environment = f"{names.run_environment(run.environment.python)}-{run.cases[0].device}"
    wrong = record.wrong_results(run)
    for built in builds:
        commit = built.revision.commit
        kept = record.of_built(built, environment, wrong.get(commit, ""))
        kept.build = _elsewhere(kept.build)
        record.write(record.path_of(results, name, commit, environment), kept)


def _elsewhere(build: Build) -> Build:
    """Without the paths of this machine, which are of no use to others."""
    tools = {name: value for name, value in build.toolchain.items() if not value.startswith("/")}
    return msgspec.structs.replace(build, directory="", reused=False, toolchain=tools)
