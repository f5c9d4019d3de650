"""`cloud run` on several machines: each measures a shard of a run's cases, as a job of its own."""

import shlex
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashbench.cli.cloud_job import REACHED, RENTED
from flashbench.cli.cloud_plan import effect_of_limits, forecast_there, options_there, plan_lines
from flashbench.cli.fleet import plan_flags, spread
from flashbench.cli.measuring import tell
from flashbench.cli.run import finish, plan_of
from flashbench.cli.run_file import run_file
from flashbench.cloud import job_record as records
from flashbench.cloud.job_record import JobRecord
from flashbench.cloud.remote_command import RemoteCommand
from flashbench.cloud.sky import SHORTEST_LIFE
from flashbench.errors import Exit, InvalidInputError
from flashbench.fleet.local import Slot, measure_on_slots
from flashbench.fleet.parts import Parts, budget_flag
from flashbench.shard import Shard, cases_of_shard

if TYPE_CHECKING:
    from flashbench.cloud.sky import Rental


def measure_on_machines(
    context: click.Context,
    wanted: RemoteCommand,
    record: JobRecord,
    machines: Sequence[str],
    options: dict[str, Any],
) -> int:
    """Measure a run on these machines into one run file. record: of the job on any of them.

    The same command finds its jobs again: each is named by its shard and its part of the run file.
    """
    path = _require_run(wanted, options)
    plan = plan_of(options_there(wanted.context.params, record))
    cases = plan.cases("cpu" if plan.device == "auto" else plan.device)
    cases_of_shard(cases, f"1/{len(machines)}")  # there is one for each
    found = forecast_there(wanted, record, len(machines))
    assert found is not None
    for line in plan_lines(found, record, len(machines)):
        tell(line)
    limited = bool(record.machine and options["money_limit"])
    rent_again = partial(via_again, context, options) if limited else None
    slots = [Slot(name, {}, _via(context, options, name), rent_again) for name in machines]
    flags = wanted.words[1:]
    if options["dry_run"]:
        parts = Parts(path, len(slots), list(map(Shard.parse, found.shards)))
        budgeted = [*flags, *budget_flag(plan.budget_seconds, len(slots))]
        for index, slot in enumerate(slots, 1):
            _, *run = shlex.split(parts.typed(index, budgeted, resumed=False))
            click.echo(f"# {slot.name}\n{shlex.join(['flashbench', *slot.via, '--', *run])}")
        return Exit.PASS
    if record.machine is not None:
        _agree(record.machine, len(slots), yes=options["yes"])
    asked = [str(path.absolute()), *machines, *flags, *(case.id for case in cases)]
    shards = list(map(Shard.parse, records.remembered(asked, found.shards)))
    with run_file(path, "-o", None, force=False) as resumed:
        end = measure_on_slots(plan, path, slots, flags, tell, resumed, shards, records.paid_for)
    again = shlex.join(["flashbench", *sys.argv[1:]])
    return finish(end, path, wanted.context.params, again)


def _require_run(wanted: RemoteCommand, options: dict[str, Any]) -> Path:
    """The run file. InvalidInputError for a command that several machines cannot share."""
    inner = wanted.context
    if wanted.words[0] != "run":
        raise InvalidInputError(
            f"several machines share the cases of `run`; name one machine for `{wanted.words[0]}`"
        )
    if inner.params["shard"] or spread(inner):
        raise InvalidInputError("the machines share the cases: drop --shard, --gpus and --slurm")
    if wanted.run_file is None:
        raise InvalidInputError("name the run file of several machines: -- run -o FILE ...")
    if options["no_wait"]:
        raise InvalidInputError("--no-wait: several machines are waited for; drop it")
    return wanted.run_file


def via_again(
    context: click.Context, options: dict[str, Any], done: Sequence[Path]
) -> list[str] | None:
    """The command that rents another machine for what its last ones left of their share of
    --money-limit; None if that is too little. done: the parts that they measured. A lost machine
    may live, and cost, as long as its limit allows."""
    life = options["time_limit"]
    left = int(life - records.paid_seconds(done))
    if left < SHORTEST_LIFE:
        return None
    money = options["money_limit"] * left / life
    return _via(context, options | {"money_limit": money}, "", time_limit=f"{left}s")


def _via(context: click.Context, options: dict[str, Any], name: str, **limits: str) -> list[str]:
    """The command that runs another one on one of the machines."""
    rented = bool(options["gpu"])
    one = dict.fromkeys(REACHED if rented else RENTED) | {
        "gpu": options["gpu"] or None,
        "ssh": None if rented else name,
        "machines": None,
        "money_limit": options["money_limit"],
        "no_preflight": True,
        "yes": True,
        "part": True,
        **limits,
    }
    return ["cloud", "run", *plan_flags(context, **one)]


def _agree(machine: "Rental", count: int, *, yes: bool) -> None:
    """Say what each of the machines may cost, and ask for confirmation."""
    for line in effect_of_limits(machine):
        tell(f"each of {count}: {line}")
    if not yes and not (sys.stdin.isatty() and click.confirm(f"Rent {count}?", err=True)):
        raise InvalidInputError("nothing was rented; --yes rents without asking")
