"""`flashbench cloud`: a command of flashbench on a rented machine, or on one reached by ssh."""

import shlex
import sys
import time
from math import floor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashbench.cli.cloud_plan import effect_of_limits, plan_there
from flashbench.cli.measuring import is_given, tell
from flashbench.cli.parameter_types import Count, Duration, Number, PathType
from flashbench.cloud.sky import GPUS
from flashbench.errors import Exit, InvalidInputError, NotMeasuredError
from flashbench.files import remove_tree
from flashbench.render.escape import printable
from flashbench.settings import SettingsCommand

if TYPE_CHECKING:
    from flashbench.cloud.job import RemoteJob
    from flashbench.cloud.order import Order
    from flashbench.cloud.record import Record
    from flashbench.cloud.remote_command import RemoteCommand
    from flashbench.cloud.sky import Rental

_LAST_LINES = 40  # of what a command said there on stderr


@click.group("cloud", no_args_is_help=False)
def command() -> None:
    """Run a flashbench command on a rented machine, or on one reached by ssh.

    The machine gets a wheel and the commits, gates, measures, enforces its limits and ends on its
    own, even if your side is gone. Running the same command again finds the job and its results.
    """


class _Run(SettingsCommand):
    """`cloud run`, whose settings are in [tool.flashbench.cloud]: those of `run` are the
    command's."""

    @property
    def table(self) -> str:
        return "cloud"


@command.command(
    "run",
    cls=_Run,
    epilog="Exit codes: those of the remote command, or 2 usage, 4 no machine, no connection or a "
    "limit that was reached. --dry-run shows everything and starts nothing.",
)
@click.argument("words", metavar="-- COMMAND...", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--gpu", type=click.Choice(GPUS), help="Rent a machine with this GPU through SkyPilot."
)
@click.option("--ssh", metavar="[USER@]HOST", help="Use this machine instead.")
@click.option(
    "--time-limit",
    type=Duration(),
    default="1h",
    show_default=True,
    help="For a rented machine's whole life, or for the job on any other; enforced on the machine.",
)
@click.option(
    "--money-limit",
    type=Number(above_zero=True),
    metavar="USD",
    help="Rent no machine whose whole life could cost more (disk and traffic aside).",
)
@click.option(
    "--spot",
    is_flag=True,
    help="Rent a spot machine; if it is reclaimed, the job resumes on another.",
)
@click.option("--disk", type=Count(20, 16_384), default=100, show_default=True, metavar="GB")
@click.option("--infra", default="", metavar="CLOUD[/REGION]", help="As SkyPilot's.")
@click.option("--image", default="", help="As SkyPilot's image_id, e.g. docker:NAME.")
@click.option(
    "--bucket", default="", metavar="URL", help="Store the results there, e.g. s3://mine/runs."
)
@click.option(
    "--down",
    is_flag=True,
    help="Remove the machine at its end even without --bucket; results not downloaded by then are "
    "lost.",
)
@click.option(
    "--ssh-config",
    type=PathType(folder=False),
    help="The ssh configuration to use instead of yours.",
)
@click.option(
    "--python", default="", help="Python on the machine.  [default: one of 3.11 or later]"
)
@click.option("--shutdown", is_flag=True, help="With --ssh: shut the machine down at the end.")
@click.option(
    "--wheel",
    "wheels",
    type=PathType(folder=False),
    multiple=True,
    help="Wheel of flashbench to send; repeatable.  [default: those of `make wheel`]",
)
@click.option("--no-preflight", is_flag=True, help="Skip preflight on this side.")
@click.option("--no-gate", is_flag=True, help="Do not gate the new revision before `compare`.")
@click.option("--no-wait", is_flag=True, help="Start the job and return.")
@click.option("--dry-run", is_flag=True, help="Show task, commands, limits, price; start nothing.")
@click.option("-y", "--yes", is_flag=True, help="Rent without asking.")
@click.pass_context
def run(context: click.Context, /, **options: Any) -> int:
    """Measure on another machine: flashbench cloud run --gpu H100 -- compare main HEAD.

    Runs preflight here, shows plan and price, starts one machine, sends wheel and commits (the
    working tree only for a command that measures it), gates, measures, downloads the run file, and
    ends the machine.
    """
    from flashbench.cli import cli
    from flashbench.cloud.order import prepare
    from flashbench.cloud.remote_command import parse

    _choose_machine(context, options)
    wanted = parse(cli, click.Context(cli, info_name="flashbench"), options["words"])
    job, record = _job(wanted, options), _record(wanted, options)
    if not options["no_preflight"]:
        _preflight()
    order = prepare(job, record, tell)
    if not order.begun:
        for line in plan_there(wanted, order.record):
            tell(line)
    if options["dry_run"]:
        _show(order, job)
        return Exit.PASS
    if order.begun:
        tell(
            f"{order.record.name} was started before; to measure again: rm -r {order.record.place}"
        )
        if order.record.code is not None:
            return _printed(order)
    if order.record.machine is None:
        order.begin()
    elif not (order.begun and order.answers()):
        _agree(order, yes=options["yes"])
        order.begin()
    name = order.record.name
    tell(f"{name} runs, whatever happens here; its results: flashbench cloud fetch {name}")
    return Exit.PASS if options["no_wait"] else _awaited(order)


@command.command("fetch", epilog="Exit codes: those of the remote command, or 2, 4.")
@click.argument("name")
def fetch(name: str) -> int:
    """Wait for a job, download its results, and end its machine. NAME: from `cloud run`."""
    order = _found(name)
    if order.record.code is not None:
        return _printed(order)
    if order.record.machine is not None and not order.answers():
        order.deliver()
        raise NotMeasuredError(f"{name} does not answer; {order.where()}")
    return _awaited(order)


@command.command("stop", epilog="Exit codes: 0 stopped, 2 usage, 4 the machine cannot be reached.")
@click.argument("name")
def stop(name: str) -> int:
    """End a job now: it saves its results, which are downloaded, and its machine ends."""
    order = _found(name)
    if order.record.code is None:
        order.record.remote.stop()
        order.finish()
    tell(f"{name} has ended with exit code {order.record.code}")
    return Exit.PASS


def _found(name: str) -> "Order":
    from flashbench.cloud.order import find
    from flashbench.cloud.record import home

    order = find(name, tell)
    if order is None:
        raise InvalidInputError(f"no job {name}; those that were begun are in {home()}")
    return order


def _awaited(order: "Order") -> int:
    """Wait, download and print the results. Ctrl-C leaves the job running."""
    name = order.record.name
    try:
        order.finish()
    except KeyboardInterrupt:
        raise NotMeasuredError(
            f"interrupted; the job goes on: flashbench cloud fetch {name}, or cloud stop {name}"
        ) from None
    return _printed(order)


def _printed(order: "Order") -> int:
    """Print the remote command's output, and on failure its last errors; returns its exit code."""
    code = order.record.code
    assert code is not None
    if code in (Exit.USAGE, Exit.NOT_MEASURED):
        for line in _lines(order.results / "stderr.txt")[-_LAST_LINES:]:
            click.echo(printable(line), err=True)
    for line in _lines(order.results / "stdout.txt"):
        click.echo(printable(line))
    return code


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8", errors="replace").splitlines() if file.exists() else []


_RENTED = ("gpu", "money_limit", "spot", "infra", "image", "bucket", "down")
_REACHED = ("ssh", "ssh_config", "shutdown")


def _choose_machine(context: click.Context, options: dict[str, Any]) -> None:
    """A machine to rent, or an existing one; ignores settings of the other kind, and refuses its
    options."""
    given = [name for name in ("gpu", "ssh") if is_given(context, name)]
    chosen = given or [name for name in ("gpu", "ssh") if options[name]]
    if len(chosen) != 1:
        raise InvalidInputError("name a GPU to rent with --gpu, or a machine with --ssh")
    for name in _RENTED if chosen == ["ssh"] else _REACHED:
        if is_given(context, name):
            flag = f"--{name.replace('_', '-')}"
            kind = "rented" if chosen == ["ssh"] else "reached by ssh"
            raise InvalidInputError(f"{flag} is for a machine that is {kind}; drop it")
        options[name] = type(options[name])() if options[name] is not None else None


def _machine(options: dict[str, Any]) -> "Rental":
    from flashbench.cloud.sky import SHORTEST_LIFE, Rental, split_bucket

    if options["bucket"]:
        split_bucket(options["bucket"])
    life, most = int(options["time_limit"]), options["money_limit"]
    if life < SHORTEST_LIFE:
        raise InvalidInputError(
            f"--time-limit: a rented machine needs {SHORTEST_LIFE // 60}m or more, to start, to "
            "measure and to end"
        )
    hourly = most and floor(most * 3600 / life * 1e4) / 1e4  # never more than the limit
    if most and not hourly:
        raise InvalidInputError("--money-limit: less than 0.0001 an hour buys no machine; raise it")
    return Rental(
        name="",
        gpu=options["gpu"],
        life=life,
        spot=options["spot"],
        disk=options["disk"],
        infra=options["infra"],
        image=options["image"],
        bucket=options["bucket"].rstrip("/"),
        most_hourly=hourly,
        # A spot machine cannot be stopped everywhere; another keeps its disk until it is fetched.
        down=bool(options["down"] or options["bucket"] or options["spot"]),
    )


def _job(wanted: "RemoteCommand", options: dict[str, Any]) -> "RemoteJob":
    from flashbench.cloud.job import RemoteJob
    from flashbench.cloud.wheels import find_wheels
    from flashbench.revisions import read

    project = read(Path.cwd())
    name, run_file = wanted.words[0], wanted.run_file
    extras = [*(["gpu"] if options["gpu"] else []), *(["history"] if name == "backfill" else [])]
    return RemoteJob(
        repository=project.repository,
        command=wanted.words,
        run_file=(wanted.flag, _called(wanted)) if wanted.flag else ("", ""),
        revisions=wanted.texts,
        worktree=wanted.worktree,
        folder=project.directory,
        gate="" if options["no_gate"] else wanted.gate,
        budget=wanted.budget,
        python=options["python"],
        extras=f"[{','.join(extras)}]" if extras else "",
        off=options["shutdown"],
        wheels=find_wheels(options["wheels"]),
        earlier=[run_file] if run_file is not None and _is_intact(run_file) else [],
    )


def _is_intact(run_file: Path) -> bool:
    """Whether a run file can be resumed there; says so if it is damaged."""
    from flashbench.run_reader import load

    if not run_file.is_file():
        return False
    try:
        load(run_file)
    except InvalidInputError as error:
        tell(f"warning: {error}; it is not sent, and set aside once the job's results are here")
        return False
    return True


def _called(wanted: "RemoteCommand") -> str:
    """The run file's name there."""
    return wanted.run_file.name if wanted.run_file else f"{wanted.words[0]}.json"


def _record(wanted: "RemoteCommand", options: dict[str, Any]) -> "Record":
    from flashbench.cloud.record import Record

    config = options["ssh_config"]
    return Record(
        name="",
        folder="",
        command=list(options["words"]),
        created=time.time(),
        seconds=options["time_limit"],
        machine=_machine(options) if options["gpu"] else None,
        ssh=options["ssh"] or "",
        config=str(config.absolute()) if config else "",
        result=_called(wanted) if wanted.flag else "",
        run_file=str(wanted.run_file.absolute()) if wanted.run_file else "",
    )


def _preflight() -> None:
    from flashbench.preflight import run as preflight
    from flashbench.views import preflight as view

    report = preflight(Path.cwd(), "source")
    if report.errors:
        click.echo(view.text(report), err=True, nl=False)
        raise NotMeasuredError(
            f"preflight found {len(report.errors)} errors, which would fail on a machine that is "
            "paid for; --no-preflight goes on nevertheless"
        )


def _agree(order: "Order", *, yes: bool) -> None:
    """Show what would be rented and its cost, and ask for confirmation."""
    from flashbench.cloud import sky

    machine = order.record.machine
    assert machine is not None
    if order.begun and order.left < sky.SHORTEST_LIFE:
        order.deliver()
        raise NotMeasuredError(f"its time is over; {order.where()}")
    task = order.write_tasks(machine)[1]
    sky.call(sky.dry_run(machine.name, task))
    for line in effect_of_limits(machine):
        tell(line)
    if not yes and not (sys.stdin.isatty() and click.confirm("Rent it?", err=True)):
        if not order.begun:
            remove_tree(order.record.place)
        raise InvalidInputError("nothing was rented; --yes rents without asking")


def _show(order: "Order", job: "RemoteJob") -> None:
    """Show everything that would be sent and started; leaves nothing behind."""
    from flashbench.cloud import sky

    record, machine, remote = order.record, order.record.machine, order.record.remote
    try:
        tasks = order.write_tasks(machine) if machine else []
        for file in sorted(filter(Path.is_file, order.payload.rglob("*"))):
            click.echo(f"# sent: {file.relative_to(order.payload)}, {file.stat().st_size} bytes")
        click.echo(f"# parameters\n{job.parameters().rstrip()}")
        for file in (order.payload / "limits", *tasks):
            click.echo(f"# {file.name}\n{file.read_text().rstrip()}")
        click.echo("# started by")
        if machine is None:
            click.echo(shlex.join(remote.command(remote.starting)))
            return
        for file in tasks:
            click.echo(shlex.join(["sky", *sky.launching(machine.name, file)]))
        for line in effect_of_limits(machine):
            click.echo(f"# {line}")
        try:
            sky.call(sky.dry_run(machine.name, tasks[-1]))
        except (InvalidInputError, NotMeasuredError) as error:
            tell(f"the price is not known: {error}")
    finally:
        if not order.begun:
            remove_tree(record.place)
