"""Reasons not to record a run in a history, whose points are compared with each other."""

from flashbench.runfile import Launch, RunFile

FEWEST = 3  # launches, as `asv run` measures per commit
_DROPPED = 0.1  # share of blocks beyond which the machine throttled, not just hiccuped


def doubts(run: RunFile) -> list[str]:
    """Why a run should not be recorded, each in a few words: unfinished, small, throttled, or
    measured on a busy machine. Empty if nothing speaks against it."""
    complete = sum(launch.complete for launch in run.launches)
    planned = max(run.settings.launches, len(run.launches))
    found = []
    if complete < planned:
        found.append(f"{complete} of {planned} launches are complete")
    elif complete < FEWEST:
        found.append(f"{complete} launches, fewer than {FEWEST}")
    dropped = _dropped(run)
    if dropped > _DROPPED:
        found.append(f"{100 * dropped:.0f} % of the blocks were throttled")
    return found + _busy(run)


def _dropped(run: RunFile) -> float:
    """The share of dropped blocks; all candidates of a case share a block."""
    if not any(result.dropped_blocks for launch in run.launches for result in launch.results):
        return 0.0
    dropped, kept = 0, 0
    for launch in run.launches:
        blocks: dict[str, tuple[int, int]] = {}
        for result in launch.results:
            lost, there = blocks.get(result.case, (0, 0))
            own = sum(len(set(timing.block)) for timing in result.timings)
            blocks[result.case] = max(lost, result.dropped_blocks), max(there, own)
        dropped += sum(lost for lost, _ in blocks.values())
        kept += sum(there for _, there in blocks.values())
    return dropped / (dropped + kept)


def _busy(run: RunFile) -> list[str]:
    """Whether half of a CPU run's launches were disturbed: a median tolerates fewer."""
    limit = run.environment.cpu_count / 2  # the limit of `run`'s warning
    loads = [_load(run, launch) for launch in run.launches]
    if not limit or all(case.device != "cpu" for case in run.cases):
        return []
    busy = [load for load in loads if load >= limit]
    if not busy or 2 * len(busy) < len(loads):
        return []
    return [
        f"busy with other work in {len(busy)} of {len(loads)} launches (load average up to "
        f"{max(busy):.1f} on {run.environment.cpu_count} CPUs)"
    ]


def _load(run: RunFile, launch: Launch) -> float:
    """The load of other processes: without the previous launch's threads, still in the average."""
    load = launch.before.load_average if launch.before else None
    own = run.environment.threads if launch is not run.launches[0] else 0
    return (load or 0.0) - own
