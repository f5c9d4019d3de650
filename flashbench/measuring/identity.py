"""Check that the machine and the builds are still those a run began with."""

from collections.abc import Sequence

from flashbench.runfile import Candidate, Environment, RunFile

# A host's name, memory and kernel may differ: a preempted machine comes back as another.
SAME = ("gpu", "driver", "cuda", "torch", "cpu", "cpu_count", "threads", "python")


def difference(
    run: RunFile, environment: Environment, candidates: Sequence[Candidate]
) -> str | None:
    """What changed since the run began; None if nothing did."""
    for name in SAME:
        before, now = getattr(run.environment, name), getattr(environment, name)
        if before != now:
            return f"{name.replace('_', ' ')} was {before or 'none'} and is {now or 'none'} now"
    then_by_name = {candidate.name: candidate for candidate in run.candidates}
    for candidate in candidates:
        then = then_by_name.get(candidate.name)
        if then is None or then.spec != candidate.spec:
            return f"candidate {candidate.name} is not the one in the file"
        for part in ("source_hash", "library_hash"):
            if getattr(then.build, part) != getattr(candidate.build, part):
                return (
                    f"the build of candidate {candidate.name} changed "
                    f"({part.replace('_', ' ')} differs)"
                )
    return None
