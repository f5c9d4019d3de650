"""The machine and the job that the options of `cloud run` ask for."""

import re
import time
from math import floor
from pathlib import Path
from typing import Any

import click

from flashbench import runfile
from flashbench.cli.measuring import is_given, tell
from flashbench.cloud.follow import intact
from flashbench.cloud.job import RemoteJob
from flashbench.cloud.job_record import JobRecord
from flashbench.cloud.remote_command import RemoteCommand
from flashbench.cloud.sky import SHORTEST_LIFE, Rental, split_bucket
from flashbench.cloud.wheels import find_wheels
from flashbench.errors import InvalidInputError
from flashbench.profile.model import is_profile
from flashbench.revisions import read

RENTED = ("gpu", "money_limit", "spot", "infra", "image", "bucket", "down", "machines")
_HOST = re.compile(r"(?!-)[^\s,]+")  # a leading dash would be an option of ssh
REACHED = ("ssh", "ssh_config", "shutdown")


def choose_machines(context: click.Context, options: dict[str, Any]) -> list[str]:
    """The names of machines to rent, or of existing ones; ignores settings of the other kind, and
    refuses its options."""
    given = [name for name in ("gpu", "ssh") if is_given(context, name)]
    chosen = given or [name for name in ("gpu", "ssh") if options[name]]
    if len(chosen) != 1:
        raise InvalidInputError("name a GPU to rent with --gpu, or a machine with --ssh")
    for name in RENTED if chosen == ["ssh"] else REACHED:
        if is_given(context, name):
            flag = f"--{name.replace('_', '-')}"
            kind = "rented" if chosen == ["ssh"] else "reached by ssh"
            raise InvalidInputError(f"{flag} is for a machine that is {kind}; drop it")
        options[name] = type(options[name])() if options[name] is not None else None
    if chosen == ["gpu"]:
        if options["money_limit"]:
            options["money_limit"] /= options["machines"]
        return [f"{options['gpu']} {index}" for index in range(1, options["machines"] + 1)]
    hosts = [host.strip() for host in options["ssh"].split(",")]
    if not all(map(_HOST.fullmatch, hosts)):
        raise InvalidInputError(f"--ssh {options['ssh']!r} names no host; write user@host")
    if len(set(hosts)) < len(hosts):
        raise InvalidInputError(f"--ssh {options['ssh']} names a machine twice; drop one")
    return hosts


def rental(options: dict[str, Any]) -> Rental:
    """What to rent. InvalidInputError for limits that leave no time."""
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


def job_of(wanted: RemoteCommand, options: dict[str, Any]) -> RemoteJob:
    """The job of a command."""
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
        earlier=_earlier(run_file, options),
    )


def _earlier(run_file: Path | None, options: dict[str, Any]) -> list[Path]:
    """The run file to resume there, if any; sets one aside that was cut short."""
    if run_file is None or not run_file.exists() or is_profile(run_file):
        return []
    found = runfile.read(run_file) if options["dry_run"] else intact(run_file, tell)
    return [] if found is None else [run_file]


def _called(wanted: RemoteCommand) -> str:
    """The run file's name there."""
    return wanted.run_file.name if wanted.run_file else f"{wanted.words[0]}.json"


def record_of(wanted: RemoteCommand, options: dict[str, Any]) -> JobRecord:
    """The record of a job that has no name yet."""
    config = options["ssh_config"]
    return JobRecord(
        name="",
        folder="",
        command=list(options["words"]),
        created=time.time(),
        seconds=options["time_limit"],
        machine=rental(options) if options["gpu"] else None,
        ssh=options["ssh"] or "",
        config=str(config.absolute()) if config else "",
        result=_called(wanted) if wanted.flag else "",
        run_file=str(wanted.run_file.absolute()) if wanted.run_file else "",
        part=options["part"],
        lost_after=options["lost_after"],
    )
