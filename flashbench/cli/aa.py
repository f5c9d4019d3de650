"""`flashbench aa`: a build against itself; this machine's false-alarm rate and what it can see."""

import math
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashbench.cli.measuring import (
    check_writable,
    effort_options,
    grid_options,
    plan_options,
    tell,
)
from flashbench.cli.output import Fraction, deliver, judging_options
from flashbench.errors import Exit, InvalidInputError, NotMeasuredError
from flashbench.runfile import Candidate, Pair
from flashbench.settings import SettingsCommand

if TYPE_CHECKING:
    from flashbench.aa import SelfComparison
    from flashbench.run import Plan
    from flashbench.runfile import RunFile

OLD, NEW = "A", "B"
TABLES = ("text", "markdown", "csv", "json")  # there is no verdict to annotate


@click.command(
    "aa",
    cls=SettingsCommand,
    epilog="Exit codes: 0 measured, 1 the false-alarm rate of families is above what --confidence "
    "promises (an exact binomial test at 5 %), 2 usage, 4 not measured. Defaults: "
    "[tool.flashbench.aa] of pyproject.toml.",
)
@click.option(
    "--candidate",
    default="flashbench:attention",
    show_default=True,
    metavar="MODULE:FUNCTION",
    help="What is compared with itself.",
)
@click.option(
    "--comparisons",
    type=click.IntRange(1, 10_000),
    default=20,
    show_default=True,
    help="Of all cases together; each has its own launches.",
)
@click.option(
    "--launches",
    type=click.IntRange(2, 1000),
    default=12,
    show_default=True,
    help="Of a comparison.",
)
@grid_options
@effort_options
@click.option("--tolerance", type=Fraction(0, 1), default="1%", show_default=True)
@click.option("--confidence", type=Fraction(0.5, 1), default="95%", show_default=True)
@click.option(
    "--run-file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where the measurements go.  [default: aa-<date>-<time>.json]",
)
@click.option(
    "--resume",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Go on with the run file of an earlier `aa`, or print its table again.",
)
@click.option("--save", is_flag=True, help="Keep what was learned in the machine's profile.")
@click.option("--format", "output_format", type=click.Choice(TABLES), default="text")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False))
def command(**options: Any) -> int:
    """Compare a build with itself, over and over: whatever is found is a false alarm.

    Two copies are loaded side by side in each launch, as `compare` loads two revisions, and judged
    by the same code. Prints how often that gave a false alarm on this machine, the smallest change
    that 5, 10, 20 and 40 launches would have found, and the launches to plan for.
    """
    from flashbench import runfile
    from flashbench.aa import compare_with_itself
    from flashbench.launches import collect
    from flashbench.views import noise

    resumed = None
    if options["resume"] is not None:
        resumed = runfile.load(options["resume"])
        _require_one_build(resumed, options["resume"])
    path = options["run_file"] or options["resume"]
    path = path or Path(f"aa-{datetime.now(UTC):%Y%m%d-%H%M%S}.json")
    check_writable(path, "--run-file")
    run = _measure(options, resumed, path)
    tell(f"analysing {len(run.launches)} launches of {len(run.cases)} cases")
    judging = judging_options(resumed, {**options, "metric": None})
    data = collect(run, judging["metric"])
    found = compare_with_itself(data, options["launches"], judging["tolerance"], judging["alpha"])
    if not found.family.trials or not found.cases:
        raise NotMeasuredError(
            f"{path}: not one whole comparison of {options['launches']} launches was measured"
        )
    deliver(noise.document(found), options["output_format"], options["output"])
    if options["save"]:
        _save(run, found)
    return Exit.REGRESSION if found.too_many else Exit.PASS


def _require_one_build(run: "RunFile", path: Path) -> None:
    """Raise InvalidInputError where a run file is not that of one build against itself."""
    pair = run.pair
    if pair is None:
        raise InvalidInputError(f"{path}: no run file of `flashbench aa`")
    named = {candidate.name: candidate for candidate in run.candidates}
    old, new = (
        (side.spec, side.build.source_hash, side.build.library_hash)
        for side in (named[pair.old], named[pair.new])
    )
    if old != new:
        raise InvalidInputError(
            f"{path}: {pair.old} and {pair.new} are two different builds; go on with it by "
            "`flashbench compare`, or measure one build against itself into a new file"
        )


def _measure(options: dict[str, Any], resumed: "RunFile | None", path: Path) -> "RunFile":
    from flashbench.build import cache_directory
    from flashbench.build.scratch import scratch
    from flashbench.measure.progress import make_progress
    from flashbench.run import measure

    with scratch(cache_directory()) as directory:
        plan = _plan(options, resumed, directory)
        outcome = measure(plan, path, make_progress(), resumed)
    run = outcome.run
    if run is None or not run.launches:
        raise NotMeasuredError("interrupted before anything was measured")
    if outcome.interrupted:
        raise NotMeasuredError(f"interrupted; go on with: flashbench aa --resume {path}")
    tell(f"{path}: {len(run.launches)} launches, {run.device_seconds:.1f} device seconds")
    return run


def _plan(options: dict[str, Any], resumed: "RunFile | None", directory: Path) -> "Plan":
    from flashbench.candidates import OUR_CALLABLE, OURS, parse_candidate
    from flashbench.project.installed import copy_installed
    from flashbench.run import Plan, plan_to_resume

    if resumed is not None:
        assert resumed.pair is not None
        spec = next(c.spec for c in resumed.candidates if c.name == resumed.pair.old)
    else:
        spec = parse_candidate(options["candidate"]).spec
        spec = OUR_CALLABLE if spec == OURS else spec
    site, identity = copy_installed(spec, directory)
    both: dict[str, Any] = {
        "candidates": [Candidate(name=name, spec=spec, build=identity) for name in (OLD, NEW)],
        "sites": {OLD: str(site), NEW: str(site)},
        "launches": options["launches"] * options["comparisons"],
        "backends": "default",
    }
    if resumed is not None:
        return replace(plan_to_resume(resumed, options["resume"]), **both)
    return Plan(
        **plan_options(options),
        metrics=[],
        pair=Pair(
            old=OLD, new=NEW, tolerance=options["tolerance"], confidence=options["confidence"]
        ),
        **both,
    )


def _save(run: "RunFile", found: "SelfComparison") -> None:
    """One entry a device; what is shown of a case is what the profile has."""
    import numpy as np

    from flashbench import machine

    for device in sorted({noise.case.device for noise in found.cases}):
        of_device = [noise for noise in found.cases if noise.case.device == device]
        name, threads = machine.identify(run.environment, device)
        curves = np.stack([noise.detectable[0.8] for noise in of_device])
        median = np.quantile(curves, 0.5, axis=0, method="higher")
        machine.keep(
            machine.Noise(
                device=device,
                name=name,
                threads=threads,
                metric=found.data.metrics[0],
                measured=run.created,
                cases=len(of_device),
                alarms=sum(noise.alarms.count for noise in of_device),
                compared=sum(noise.alarms.trials for noise in of_device),
                detectable=_finite(median.tolist()),
                detectable_worst=_finite(curves.max(axis=0).tolist()),
            ),
            machine.path(),
        )
    tell(f"kept in {machine.path()}")


def _finite(changes: list[float]) -> list[float | None]:
    return [change if math.isfinite(change) else None for change in changes]
