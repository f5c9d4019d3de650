"""The run file of a measuring command, and resuming an earlier call."""

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashbench import machine
from flashbench.cli.measuring import is_given, tell
from flashbench.cost.money import Money
from flashbench.errors import InvalidInputError, NotMeasuredError
from flashbench.measuring.requested import price_options
from flashbench.operations.chosen import chosen

if TYPE_CHECKING:
    from flashbench.measuring.plan import Plan
    from flashbench.run_plan import RunEnd
    from flashbench.runfile import RunFile
    from flashbench.suites.comparing import SuiteEnd

# These do not affect the measurements.
FREE_ON_RESUME = ("launches", "budget", "timeout", "hourly_rate")


@contextmanager
def run_file(
    path: Path, flag: str, resume: Path | None, *, force: bool
) -> "Iterator[RunFile | None]":
    """The run to resume, if any, while holding `path` against other processes.

    resume: the run file of --resume, which may be a different file. Errors as for `claimed`, and
    InvalidInputError if `path` holds another run than that of --resume.
    """
    from flashbench.measuring.claim import claimed
    from flashbench.runfile import read

    same = resume is not None and resume.absolute() == path.absolute()
    if same and force:
        raise InvalidInputError("--resume keeps what --force replaces; drop one")
    resumed = None if resume is None else read(resume)  # read again below, under the lock
    with claimed(path, flag, force=force, tell=tell) as known:
        if resume is None or (same and known is not None):
            yield known
        elif same:
            raise InvalidInputError(
                f"{resume}: nothing can be added to it; name the file to write with {flag}"
            )
        elif known is not None:
            raise InvalidInputError(
                f"{path}: already holds a run; name another file with {flag}, or replace it with "
                "--force"
            )
        else:
            yield resumed


def resumed_plan(context: click.Context, options: dict[str, Any], run: "RunFile") -> "Plan":
    """The plan in the run file of --resume, with the overrides that the command line may give."""
    from dataclasses import replace

    from flashbench.measuring.run_document import plan_to_resume

    chosen(run.operation)  # the flag has no say with --resume
    plan = plan_to_resume(run, options["resume"])
    given = {name: options[name] for name in FREE_ON_RESUME if is_given(context, name)}
    known = None if run.hourly_rate is None else Money(run.hourly_rate, run.costs.currency)
    rate, budget = given.get("hourly_rate", known), given.get("budget")
    name, _ = machine.identify(run.environment, run.cases[0].device)
    priced = price_options(options | {"hourly_rate": rate, "budget": budget}, name)
    if rate is known is not None:
        priced["price"] = run.costs.price
    return replace(
        plan,
        launches=given.get("launches", plan.launches),
        timeout_seconds=given.get("timeout", plan.timeout_seconds),
        **priced,
    )


def interrupted(path: Path, *, named: bool) -> NotMeasuredError:
    """The message after Ctrl-C: the command that resumes the run file `path`.

    named: whether the command line or a setting already names that file.
    """
    if not path.is_file():  # a device or a pipe keeps nothing
        return NotMeasuredError("interrupted")
    words = [word for word in sys.argv[1:] if word != "--force"]
    if not named:
        words[1:1] = ["--run-file", str(path)]
    return NotMeasuredError(f"interrupted; resume with: {shlex.join(['flashbench', *words])}")


def tell_end(end: "RunEnd | SuiteEnd", path: Path, again: str, options: dict[str, Any]) -> None:
    """Say that a budget ended a comparison, and the command that resumes it. Raises
    NotMeasuredError after Ctrl-C."""
    from flashbench.measuring.device_seconds import limit_name

    if end.interrupted:
        so_far = shlex.join(["flashbench", "compare", str(path)])
        raise NotMeasuredError(f"interrupted; resume with: {again}; the verdicts so far: {so_far}")
    if end.over_budget:
        tell(f"stopped by {limit_name(options['budget'])}; resume with: {again}")
