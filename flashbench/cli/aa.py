"""`flashbench aa`: a build against itself, for this machine's false-alarm rate and sensitivity."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashbench.cli.grid_options import grid_options
from flashbench.cli.measuring import pair_of, plan_options, tell
from flashbench.cli.options import (
    JOINT,
    build_options,
    candidate_option,
    confidence_option,
    effort_options,
    force_option,
    launches_option,
    processes_options,
    run_file_options,
    table_options,
    tolerance_option,
)
from flashbench.cli.output import deliver, judging_options
from flashbench.cli.parameter_types import Count
from flashbench.cli.report_file import refuse_run_file
from flashbench.cli.run_file import interrupted, run_file
from flashbench.cli.settings import SettingsCommand
from flashbench.errors import Exit, InvalidInputError, NotMeasuredError
from flashbench.measuring.claim import new_run_file
from flashbench.measuring.requested import how_to_build
from flashbench.measuring.same_plan import continued
from flashbench.revisions.project import processes_for

if TYPE_CHECKING:
    from flashbench.measuring.plan import Plan
    from flashbench.runfile import RunFile


@click.command(
    "aa",
    cls=SettingsCommand,
    epilog="Exit codes: 0 measured, 1 families had more false alarms than --confidence allows (an "
    "exact binomial test at 5 %), 2 usage, 4 not measured. Defaults: "
    "[tool.flashbench.aa] of pyproject.toml.",
)
@candidate_option(
    "MODULE:FUNCTION",
    "What to compare with itself.  [default: the callable of [tool.flashbench.project], "
    "built from the working tree; without that table flashbench:attention]",
)
@click.option(
    "--comparisons",
    type=Count(1, 10_000),
    default=20,
    show_default=True,
    help="Comparisons of all cases together; each has its own launches.",
)
@launches_option(12, "Per comparison.", least=2)
@grid_options
@effort_options
@build_options()
@processes_options
@tolerance_option()
@confidence_option(JOINT)
@run_file_options("aa", "Resume the run file of an earlier `aa`, or print its table again.")
@force_option()
@click.option(
    "--save",
    is_flag=True,
    help="Save the result in the machine's profile. Where an unchanged build cannot be SAME at "
    "1 %, `compare` of two revisions takes its default tolerance from there.",
)
@table_options
def command(**options: Any) -> int:
    """Compare a build with itself repeatedly: any change found is a false alarm.

    Two copies are loaded side by side in each launch, as `compare` loads two revisions, and judged
    by the same code. Prints how often this machine gave a false alarm, the smallest change that 5,
    10, 20 and 40 launches would detect, and the number of launches to plan.
    """
    from flashbench import machine
    from flashbench.aa import compare_with_itself, noise_of
    from flashbench.launches import launch_data
    from flashbench.views.noise import document

    path = options["run_file"] or options["resume"] or new_run_file("aa")
    refuse_run_file(options["output"], path)
    with run_file(path, "--run-file", options["resume"], force=options["force"]) as resumed:
        if resumed is not None:
            _require_one_build(resumed, options["resume"] or path)
        run = _measure(options, resumed, path)
    cases = f"{len(run.cases)} case{'s' * (len(run.cases) != 1)}"
    tell(f"analysing {len(run.launches)} launches of {cases}")
    judging = judging_options(resumed, {**options, "metric": None})
    data = launch_data(run, judging["metric"])
    found = compare_with_itself(data, options["launches"], judging["tolerance"], judging["alpha"])
    if not found.family.trials or not found.cases:
        raise NotMeasuredError(
            f"{path}: no complete comparison of {options['launches']} launches was measured; "
            f"`flashbench aa --resume {path}` goes on, or takes fewer with --launches"
        )
    deliver(document(found), options["output_format"], options["output"])
    if options["save"]:
        for noise in noise_of(found):
            machine.keep(noise, machine.path())
        tell(f"kept in {machine.path()}")
    return Exit.REGRESSION if found.too_many else Exit.PASS


def _require_one_build(run: "RunFile", path: Path) -> None:
    """Raise InvalidInputError unless a run file compares one build with itself."""
    pair = run.pair
    if pair is None:
        raise InvalidInputError(f"{path}: not a run file of `flashbench aa`")
    named = {candidate.name: candidate for candidate in run.candidates}
    old, new = named[pair.old], named[pair.new]
    if (old.spec, old.build.hashes) != (new.spec, new.build.hashes):
        raise InvalidInputError(
            f"{path}: {pair.old} and {pair.new} are two different builds; resume it with "
            "`flashbench compare`, or measure one build against itself into a new file"
        )


def _measure(options: dict[str, Any], resumed: "RunFile | None", path: Path) -> "RunFile":
    from flashbench.builds import cache_directory
    from flashbench.builds.scratch import scratch
    from flashbench.cost.spent import Spent
    from flashbench.measuring.progress import make_progress
    from flashbench.run_plan import measure

    with scratch(cache_directory()) as directory:
        again = options["resume"] is not None
        plan = _plan(options, resumed if again else None, directory)
        if resumed is not None and not again:
            plan = continued(resumed, plan, path, "--run-file", tell)
        end = measure(plan, path, make_progress(), resumed, check=not again)
    run = end.measured()
    if end.interrupted:
        named = options["run_file"] is not None or options["resume"] is not None
        raise interrupted(path, named=named)
    tell(f"{path}: {len(run.launches)} launches; {Spent.of(run).line}")
    return run


def _plan(options: dict[str, Any], resumed: "RunFile | None", directory: Path) -> "Plan":
    from flashbench.measuring.plan import Plan
    from flashbench.measuring.run_document import plan_to_resume
    from flashbench.revisions import find
    from flashbench.revisions.twice import build_twice

    again = None if resumed is None else (resumed, options["resume"])
    how = how_to_build(options)
    both: dict[str, Any] = {
        **build_twice(options["candidate"], again, directory, tell, **how),
        "launches": options["launches"] * options["comparisons"],
    }
    if resumed is not None:
        return replace(plan_to_resume(resumed, options["resume"]), **both)
    processes = processes_for(find(Path.cwd()), options["processes"])
    asked = plan_options(options | {"processes": processes}) | both
    return Plan(**asked, metrics=[], pair=pair_of(options))
