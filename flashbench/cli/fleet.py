"""The options of `run` that spread a run over devices, and their implementation."""

import shlex
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashbench.cli.measuring import is_given, tell
from flashbench.cli.options import ARRANGEMENT, dry_run_option, no_wait_option, together
from flashbench.cli.parameter_types import Count, refused_as
from flashbench.errors import InvalidInputError
from flashbench.metric import metrics_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flashbench.measuring.plan import Plan
    from flashbench.run_plan import RunEnd
    from flashbench.runfile import RunFile
    from flashbench.shard import Shard


def _shard(context: click.Context, parameter: click.Parameter, value: str | None) -> str:
    if value is None:
        return ""
    from flashbench.shard import Shard

    with refused_as(context, parameter):
        return str(Shard.parse(value))


# Options that spread a run over devices.
fleet_options = together(
    click.option(
        "--shard",
        metavar="I/N",
        callback=_shard,
        help="Measure only the I-th of N parts of the cases; `flashbench merge` joins the parts.",
    ),
    click.option(
        "--gpus",
        metavar="all|N|I,J,...",
        help="Spread the cases over all GPUs here, the first N, or these.",
    ),
    click.option(
        "--slurm",
        type=Count(1, 10_000),
        metavar="N",
        help="Spread the cases over a job array of N tasks on a Slurm cluster.",
    ),
    click.option(
        "--slurm-partition", metavar="NAME", help="The job's partition.  [default: Slurm's]"
    ),
    click.option(
        "--slurm-time",
        type=Count(1, 525_600),
        default=60,
        show_default=True,
        metavar="MINUTES",
        help="For each task.",
    ),
    click.option("--slurm-gres", help="For each task.  [default: gpu:1 on cuda, nothing on cpu]"),
    click.option(
        "--slurm-option",
        "slurm_options",
        multiple=True,
        metavar="NAME[=VALUE]",
        help="Any other long option of sbatch, e.g. account=me, cpus-per-task=8; repeatable.",
    ),
    dry_run_option("With --slurm: print the script, submit nothing."),
    no_wait_option("With --slurm: print the job ID and exit."),
    # For a task that `run` started itself: resume the part's file, no table, no advice.
    click.option("--child", is_flag=True, hidden=True),
)
# Options of `run` that do not determine what is measured, and --budget, which tasks share.
_NOT_PLAN = {"shard", "child", "resume", "output", "force", "format_", "budget", *ARRANGEMENT}
FREE_OF_FLEET = {
    "gpus", "slurm", "slurm_partition", "slurm_time", "slurm_gres", "slurm_options", "dry_run",
    "no_wait",
}  # fmt: skip


def spread(context: click.Context) -> str:
    """The options that spread this run over devices, as the user would retype them; "" if none.

    Settings spread only new, whole runs that are not on the CPU; the command line always counts.
    """
    options = context.params
    given = [name for name in ("shard", "gpus", "slurm") if is_given(context, name)]
    if len(given) > 1:
        raise InvalidInputError(f"--{given[0]} and --{given[1]} do not go together; drop one")
    if (options["dry_run"] or options["no_wait"]) and not options["slurm"]:
        raise InvalidInputError("--dry-run and --no-wait need --slurm N; add it, or drop them")
    wanted = given or [name for name in ("slurm", "gpus") if options[name]]
    if options["child"] or not wanted or wanted == ["shard"]:
        return ""
    if not given and (options["shard"] or options["resume"] or options["device"] == "cpu"):
        return ""
    if wanted[0] == "gpus":
        return shlex.join(["--gpus", options["gpus"]])
    flags = ["--slurm", str(options["slurm"])]
    for name in ("slurm_partition", "slurm_time", "slurm_gres"):
        if is_given(context, name):
            flags += [f"--{name.replace('_', '-')}", str(options[name])]
    for option in options["slurm_options"]:
        flags += ["--slurm-option", option]
    return shlex.join(flags)


def measure_on_fleet(
    context: click.Context, plan: "Plan", path: Path, resumed: "RunFile | None", fleet: str
) -> "RunEnd | None":
    """Measure as `fleet`, the result of `spread`, says; None if it did not wait for results."""
    if fleet.startswith("--slurm"):
        return _measure_on_slurm(context, plan, path, resumed)
    return _measure_on_gpus(context, plan, path, resumed)


def _measure_on_slurm(
    context: click.Context, plan: "Plan", path: Path, resumed: "RunFile | None"
) -> "RunEnd | None":
    from flashbench.fleet.parts import Parts
    from flashbench.fleet.slurm import Cluster, SlurmRequest, measure_on_slurm
    from flashbench.shard import cases_of_shard

    options = context.params
    device = resumed.cases[0].device if resumed else plan.device
    if device == "auto":
        raise InvalidInputError(
            "--slurm: add --device cuda or --device cpu; this machine is not the one that measures"
        )
    count = options["slurm"]
    shards = _shards(plan, resumed, device, count)
    cases_of_shard(resumed.cases if resumed else plan.cases(device), str(shards[0]))
    request = SlurmRequest(
        minutes=options["slurm_time"],
        partition=options["slurm_partition"],
        gres=options["slurm_gres"] or ("gpu:1" if device == "cuda" else None),
        exclusive=device == "cpu",
        options=tuple(_pair(text) for text in options["slurm_options"]),
    )
    flags = [] if resumed else plan_flags(context)
    return measure_on_slurm(
        plan,
        Cluster(Parts(path, count, shards), request, tell),
        flags,
        resumed,
        dry_run=options["dry_run"],
        wait=not options["no_wait"],
    )


def _pair(text: str) -> tuple[str, str | bool]:
    name, equals, value = text.partition("=")
    return name, value if equals else True


def _measure_on_gpus(
    context: click.Context, plan: "Plan", path: Path, resumed: "RunFile | None"
) -> "RunEnd":
    """Measure on the GPUs that --gpus names, with one process tree each."""
    from flashbench.fleet.gpus import choose, slots, visible_gpus
    from flashbench.fleet.local import measure_on_slots

    device = resumed.cases[0].device if resumed else plan.device
    if device == "cpu":
        raise InvalidInputError(
            "--gpus: the cases run on the CPU, where two workers would disturb each other"
        )
    places = slots(choose(context.params["gpus"], visible_gpus()))
    cases = resumed.cases if resumed else plan.cases("cuda")
    flags = [] if resumed else plan_flags(context, device="cuda")
    places = places[: len(cases)]
    shards = _shards(plan, resumed, "cuda", len(places))
    return measure_on_slots(plan, path, places, flags, tell, resumed, shards)


def _shards(plan: "Plan", resumed: "RunFile | None", device: str, count: int) -> "Sequence[Shard]":
    """The shards of `count` devices like the one that is known here."""
    from flashbench.candidates import baselines
    from flashbench.cost.estimate import Work
    from flashbench.cost.known import experience
    from flashbench.cost.shares import shards

    candidates = [*baselines(device, plan.backends, plan.operation), *plan.candidates]
    work = Work(
        cases=resumed.cases if resumed else plan.cases(device),
        candidates=[one.spec for one in (resumed.candidates if resumed else candidates)],
        launches=plan.launches,
        samples=plan.samples,
        min_sample_seconds=plan.min_sample_seconds,
        metrics=len(plan.metrics or metrics_of(device)),
    )
    return shards(work, experience(device, plan.threads), count)


def plan_flags(context: click.Context, **changed: Any) -> list[str]:
    """The plan as flags, with settings and defaults written out, so a task that starts tomorrow
    measures what was requested today. changed: options with another value."""
    flags: list[str] = []
    for parameter in context.command.params:
        if not isinstance(parameter, click.Option) or parameter.name in _NOT_PLAN | FREE_OF_FLEET:
            continue
        value = changed.get(parameter.name or "", context.params[parameter.name or ""])
        flag = parameter.opts[0]
        if parameter.is_flag:
            flags += [flag] if value else []
        else:
            values = value if parameter.multiple else [value]
            flags += [f"{flag}={_written(one)}" for one in values if one is not None]
    return flags


def _written(value: Any) -> str:
    """A number without an exponent, which durations do not have."""
    return f"{Decimal(repr(value)):f}" if isinstance(value, float) else str(value)
