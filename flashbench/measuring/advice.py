"""Advice before a run starts: a busy machine, and what it will be able to detect."""

from flashbench import machine, operations
from flashbench.baseline_names import title
from flashbench.case import Case
from flashbench.errors import InvalidInputError
from flashbench.metric import metric_of
from flashbench.runfile import DeviceState, Environment, RunFile

_WANTED = 0.01  # the change that matters, if the run has no tolerance


def advice(run: RunFile, state: DeviceState | None, launches: int) -> list[str]:
    """Lines for the user; they change nothing. state: the machine's current state."""
    if not run.cases:
        return []
    found = busy(run.cases[0], run.environment, state), _seen(run, launches)
    return [line for line in found if line]


def busy(case: Case, environment: Environment, state: DeviceState | None) -> str | None:
    """A warning if other work shares the CPU that measures the case."""
    load = state.load_average if state else None
    if load is None or case.device != "cpu" or load < environment.cpu_count / 2:
        return None
    warning = (
        f"warning: this machine is busy (load average {load:.1f} on "
        f"{environment.cpu_count} CPUs): times may be off"
    )
    if environment.threads == 1:
        return warning
    baseline = title(operations.of(case).baseline)
    return (
        f"{warning}, {baseline}'s most of all, because its threads wait for each other; "
        "--threads 1 avoids that"
    )


def _seen(run: RunFile, launches: int) -> str | None:
    """The detectable change from the machine's profile, if there is one."""
    if all(candidate.baseline for candidate in run.candidates):
        return None
    case = run.cases[0]
    try:
        profile = machine.read(machine.path())
    except InvalidInputError as error:
        return f"warning: {error}"
    wanted = run.pair.tolerance if run.pair else _WANTED
    metric = metric_of(case.device)
    return machine.outlook(profile, run.environment, case.device, metric, launches, wanted)
