"""What a command will take on another machine, and what its limits will do there."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flashbench.cloud.job_record import JobRecord
    from flashbench.cloud.remote_command import RemoteCommand
    from flashbench.cloud.sky import Rental
    from flashbench.cost.forecast import Forecast


def forecast_there(
    wanted: "RemoteCommand", record: "JobRecord", machines: int = 1
) -> "Forecast | None":
    """What the command will take, by what such machines measured before; None if it cannot be
    planned. machines: how many share its cases."""
    from flashbench.cli import forecasts
    from flashbench.cli.plan import PLANNED

    name = wanted.words[0]
    if name not in PLANNED:
        return None
    there = options_there(wanted.context.params, record)
    if machines > 1:
        there["slurm"] = machines
    found: Forecast = getattr(forecasts, name)(wanted.context, there)
    return found


def plan_lines(found: "Forecast", record: "JobRecord", machines: int = 1) -> list[str]:
    """The plan in a few lines, beside the limits."""
    from flashbench.cloud.sky import AROUND_SECONDS, BOOT_SECONDS
    from flashbench.views import plan

    machine = record.machine
    lines = [plan.line(found, named=True)]
    likely, limit = found.wall.likely, machine.limits.seconds if machine else record.seconds
    if machine is not None:
        paid = (BOOT_SECONDS + likely + AROUND_SECONDS) / 60
        each = f" for each of {machines}" if machines > 1 else ""
        lines.append(f"with the machine's start and end about {paid:.0f} minutes are paid{each}")
    if likely > limit:
        lines.append(f"warning: --time-limit leaves {limit:.0f} s for it")
    return lines


def options_there(options: dict[str, Any], record: "JobRecord") -> dict[str, Any]:
    """A command's options, with the device that it will find there, as far as that is known."""
    from flashbench.cloud.job_record import measured_on

    machine = record.machine
    device, processor = ("cuda", machine.gpu) if machine else measured_on(record.ssh)
    there = {"on": processor or record.remote.host.rpartition("@")[2]}
    if device and options["device"] == "auto":
        there["device"] = device
    return options | there


def effect_of_limits(machine: "Rental") -> list[str]:
    """What a rented machine may take and cost at most."""
    from flashbench.cost.money import money_text, price_of, read_prices

    rate = price_of(read_prices(Path.cwd()), machine.gpu)
    money = "no limit in money: the hourly price is SkyPilot's"
    if machine.most_hourly is not None:
        whole = machine.most_hourly * machine.life / 3600
        money = f"an hour may cost {machine.most_hourly:g} USD, its whole life {whole:.2f} USD"
    elif rate is not None:
        price = money_text(rate.price_of(machine.life), rate.currency)
        money = f"its whole life costs {price} by [tool.flashbench.prices]; SkyPilot's may differ"
    after = "is removed" if machine.down else "is stopped, and its disk stays until it is fetched"
    return [
        f"the machine lives for {machine.life / 60:.0f} minutes at most, the job for "
        f"{machine.limits.seconds / 60:.0f} of them, and {after}",
        money,
    ]
