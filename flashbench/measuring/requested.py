"""What a command's options, or the parameters of a call, ask for."""

from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flashbench import operations
from flashbench.cost.money import DevicePrice, Money, price_of, read_prices, seconds_of
from flashbench.errors import InvalidInputError
from flashbench.machine import device_of, name_of
from flashbench.measuring.progress import Progress
from flashbench.operations import Operation, Sizes

if TYPE_CHECKING:
    from flashbench.measuring.plan import Plan


def requested_fields(options: dict[str, Any]) -> dict[str, Any]:
    """The fields of a `Plan` that shared options give."""
    operation = operations.named(options.get("operation", operations.DEFAULT))
    return {
        "operation": operation.name,
        "shapes": _chosen_shapes(options, operation),
        "dtypes": options["dtypes"] or None,
        "options": operation.requested(options["causal"], options["layout"]),
        "device": options["device"],
        "samples": options["samples"],
        "seed": options["seed"],
        "threads": options["threads"],
        "min_sample_seconds": options["min_sample"],
        "timeout_seconds": options["timeout"],
        **price_options(options),
        "processes": options.get("processes", "auto"),
        "workers": options.get("workers", "auto"),
        "launches": options["launches"],
    }


def requested_plan(options: dict[str, Any], fields: dict[str, Any]) -> "Plan":
    """The plan of `flashbench run`, without builds. fields: by `requested_fields`. Raises
    InvalidInputError for candidates or baselines that cannot be measured."""
    from flashbench.candidates import OURS, baselines, parse_candidates
    from flashbench.measuring.plan import Plan

    refuse_no_candidate(options)
    texts = [] if options["baseline_only"] else list(options["candidates"]) or [OURS]
    baselines("cpu", options["backends"], options["operation"])  # refuse an unknown name
    return Plan(
        **fields,
        candidates=parse_candidates(texts),
        backends=options["backends"],
        shard=options["shard"],
    )


def refuse_no_candidate(options: dict[str, Any]) -> None:
    """InvalidInputError where a candidate is named and none is to be measured."""
    if options["baseline_only"] and options["candidates"]:
        raise InvalidInputError("--baseline-only measures no candidate: drop --candidate, or it")


def how_to_build(options: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `build_one` that --build-timeout and --retry-build give."""
    return {"timeout": options["build_timeout"], "retry_failed": options["retry_build"]}


def price_options(options: dict[str, Any], machine: str = "") -> dict[str, Any]:
    """The fields of a `Plan` with the hourly price and the budget in seconds. machine: the device's
    name, if it is another machine's.

    InvalidInputError for a budget in money without a rate.
    """
    rate = rate_of(options, machine)
    budget = options["budget"]
    return {
        "budget_seconds": None if budget is None else seconds_of(budget, rate),
        "hourly_rate": rate and rate.hourly,
        "currency": rate.currency if rate else "",
        "price": rate.source if rate else "",
    }


def rate_of(options: dict[str, Any], machine: str = "") -> DevicePrice | None:
    """--hourly-rate, in the currency of --budget if it has none, else the price of the machine in
    the settings, else None. machine: as in `price_options`."""
    given: Money | None = options["hourly_rate"]
    if given is not None:
        budget = options.get("budget")
        other = budget.currency if isinstance(budget, Money) else ""
        return DevicePrice(given.amount, given.currency or other)
    prices = read_prices(Path.cwd())
    if not prices or (options.get("slurm") and not options.get("on")):  # another machine
        return None
    machine = machine or options.get("on") or name_of(device_of(options["device"]))
    found = price_of(prices, machine)
    if found is not None and (doubt := found.doubt(datetime.now(UTC).date())):
        _warn(f"the price {doubt}: {found.source}")
    return found


@cache
def _warn(text: str) -> None:
    """Once a command, however often it is called."""
    Progress().note(f"warning: {text}")


def _chosen_shapes(options: dict[str, Any], operation: Operation) -> list[Sizes]:
    """The shapes of --preset and --shape; the headline shape if neither is given."""
    presets = options["presets"] or (() if options["shapes"] else ("headline",))
    shapes = [shape for preset in presets for shape in operation.preset(preset)]
    return shapes + [shape for text in options["shapes"] for shape in operation.parse(text)]
