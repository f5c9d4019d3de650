"""`flashbench cloud`: a command of flashbench on a rented machine, or on one reached by ssh."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashbench.cli.cloud_plan import effect_of_limits, forecast_there, plan_lines
from flashbench.cli.measuring import tell
from flashbench.cli.options import dry_run_option, no_wait_option
from flashbench.cli.parameter_types import Count, Dollars, Duration, PathType
from flashbench.cli.settings import SettingsCommand
from flashbench.cloud.sky import GPUS
from flashbench.end_with_parent import end_with, parent_of_task
from flashbench.errors import Exit, InvalidInputError, NotMeasuredError
from flashbench.render.escape import printable

if TYPE_CHECKING:
    from flashbench.cloud.job import RemoteJob
    from flashbench.cloud.order import Order
    from flashbench.cloud.remote_command import RemoteCommand

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
@click.option(
    "--ssh",
    metavar="[USER@]HOST,...",
    help="Use this machine instead; several share the cases of `run`.",
)
@click.option(
    "--machines",
    type=Count(1, 1000),
    default=1,
    show_default=True,
    metavar="N",
    help="Rent N such machines, which share the cases of `run`.",
)
@click.option(
    "--time-limit",
    type=Duration(),
    default="1h",
    show_default=True,
    help="For a rented machine's whole life, or for the job on any other; enforced on the machine.",
)
@click.option(
    "--money-limit",
    type=Dollars(),
    metavar="AMOUNT",
    help="Rent no machines whose whole life could cost more (disk and traffic aside).",
)
@click.option(
    "--spot",
    is_flag=True,
    help="Rent a spot machine; if it is reclaimed, the job resumes on another.",
)
@click.option(
    "--lost-after",
    type=Duration(),
    default="3m",
    show_default=True,
    help="Without an answer for this long a spot machine, or one of several, counts as lost.",
)
@click.option(
    "--disk",
    type=Count(20, 16_384),
    default=100,
    show_default=True,
    metavar="GB",
    help="Disk of the machine.",
)
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
@no_wait_option("Start the job and return.")
@dry_run_option("Show task, commands, limits, price; start nothing.")
@click.option("-y", "--yes", is_flag=True, help="Rent without asking.")
@click.option("--part", is_flag=True, hidden=True)  # of a command for several machines
@click.pass_context
def run(context: click.Context, /, **options: Any) -> int:
    """Measure on another machine: flashbench cloud run --gpu H100 -- compare main HEAD.

    Runs preflight here, shows plan and price, starts one machine, sends wheel and commits (the
    working tree only for a command that measures it), gates, measures, downloads the run file, and
    ends the machine.
    """
    from flashbench.cli import cli
    from flashbench.cli.cloud_job import choose_machines, job_of, record_of
    from flashbench.cloud.order import pack_order
    from flashbench.cloud.remote_command import parse

    machines = choose_machines(context, options)
    if options["ssh"]:
        options["ssh"] = machines[0]  # of several the first stands for all
    wanted = parse(cli, click.Context(cli, info_name="flashbench"), options["words"])
    job = job_of(wanted, options)
    record = record_of(wanted, options)
    if not options["no_preflight"]:
        _preflight()
    if len(machines) > 1:
        from flashbench.cli.cloud_machines import measure_on_machines

        return measure_on_machines(context, wanted, record, machines, options)
    if options["part"] and (parent := parent_of_task()):
        # Or it would bring its part home after the next command has joined all of them.
        end_with(parent)
    # With several machines, the line already begins with this one's name.
    say = (lambda text: tell(text.removeprefix(f"{record.ssh}: "))) if options["part"] else tell
    order = pack_order(job, record, say)
    try:
        return _started(order, job, wanted, options)
    except BaseException:
        if not order.is_kept:  # refused: nothing of it stays
            order.discard()
        raise


def _started(
    order: "Order", job: "RemoteJob", wanted: "RemoteCommand", options: dict[str, Any]
) -> int:
    """Start the job of `cloud run`, print it, or resume it."""
    from flashbench.profile.model import is_profile

    if not order.begun and wanted.run_file is not None and is_profile(wanted.run_file):
        raise InvalidInputError(f"{wanted.run_file}: already exists; name another file")
    if not order.begun and not options["part"]:
        found = forecast_there(wanted, order.record)
        for line in plan_lines(found, order.record) if found else ():
            tell(line)
    if options["dry_run"]:
        _show(order, job)
        return Exit.PASS
    if order.begun:
        tell(
            f"{order.record.name} was started before; to measure again: rm -r {order.record.place}"
        )
        if order.record.code is not None:
            run_file = order.record.run_file
            if run_file and (order.record.part or not Path(run_file).exists()):
                order.deliver()  # as to the earlier command
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
    from flashbench.cloud.job_record import home
    from flashbench.cloud.order import find

    order = find(name, tell)
    if order is None:
        raise InvalidInputError(f"no job {name}; jobs are in {home()}")
    return order


def _awaited(order: "Order") -> int:
    """Wait, download and print the results. Ctrl-C leaves the job running."""
    name = order.record.name
    try:
        order.finish()
    except KeyboardInterrupt:
        raise NotMeasuredError(
            f"interrupted; the job keeps running: flashbench cloud fetch {name}, or cloud stop "
            f"{name}"
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


def _preflight() -> None:
    from flashbench.preflight import run as preflight
    from flashbench.views import preflight as view

    report = preflight(Path.cwd(), "source")
    if report.errors:
        click.echo(view.text(report), err=True, nl=False)
        raise NotMeasuredError(
            f"preflight found {len(report.errors)} errors, which would fail on a machine that is "
            "paid for; --no-preflight continues anyway"
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
        raise InvalidInputError("nothing was rented; --yes rents without asking")


def _show(order: "Order", job: "RemoteJob") -> None:
    """Show everything that would be sent and started; leaves nothing behind."""
    from flashbench.cloud import sky

    machine, remote = order.record.machine, order.record.remote
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
            order.discard()
