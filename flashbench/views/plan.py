"""The view of `flashbench plan`: one row per part, with its range and price."""

from flashbench.cost.estimate import Seconds
from flashbench.cost.forecast import Forecast
from flashbench.cost.money import money_text
from flashbench.table import Cell, Column, Document, Note, Value, name_column, text_cell

_NAMED = 6  # cases


def document(found: Forecast) -> Document:
    """The parts, then device time and wall-clock time."""
    currency = found.rate.currency if found.rate else ""
    columns = [
        name_column("what", "what"),
        Column("count", "count"),
        Column("seconds", "seconds"),
        Column("seconds_low", "at least"),
        Column("seconds_high", "at most"),
    ]
    if found.rate:
        columns.append(Column("cost", f"cost {currency}".rstrip()))
    rows = [_row(found, part.name, part.count, part.seconds) for part in found.parts]
    rows.append(_row(found, "device time", None, found.device))
    rows.append(_row(found, "all, by the clock", None, found.wall, found.paid))
    return Document(
        view="plan",
        header=[
            f"plan of `flashbench {found.command}`: {found.what}",
            f"on {found.machine or 'an unknown machine'}; nothing was measured",
        ],
        columns=columns,
        rows=rows,
        summary=_summary(found),
        footer=[*_money(found), *_budget(found)],
        notes=[Note(code, message) for code, message in found.sources],
    )


def line(found: Forecast, *, named: bool = False) -> str:
    """The plan in one line, for commands that print it before they start. named: with machine."""
    parts = [found.what]
    for part in found.parts:
        if part.name == "builds" and part.count:
            parts.append(f"about {part.count:.0f} builds")
    estimates = []
    for what, seconds in (("device seconds", found.device), ("seconds in all", found.wall)):
        if seconds.likely:
            range_ = f"{_seconds(seconds.low).text} to {_seconds(seconds.high).text}"
            estimates.append(f"{_seconds(seconds.likely).text} {what} ({range_})")
    if found.rate:
        estimates.append(money_text(found.rate.price_of(found.paid.likely), found.rate.currency))
    guess = "; partly a guess" if any(code == "guess" for code, _ in found.sources) else ""
    where = f" for {found.machine or 'an unknown machine'}" if named else ""
    return f"plan{where}: {', '.join(parts)}; about {', '.join(estimates)}{guess}"


def _row(
    found: Forecast, name: str, count: float | None, seconds: Seconds, paid: Seconds | None = None
) -> dict[str, Cell]:
    """paid: if others than the seconds shown."""
    row = {
        "what": text_cell(name),
        "count": Cell(None, "") if count is None else Cell(count, f"{count:.0f}"),
        "seconds": _seconds(seconds.likely),
        "seconds_low": _seconds(seconds.low),
        "seconds_high": _seconds(seconds.high),
    }
    if found.rate:
        money = found.rate.price_of((paid or seconds).likely)
        row["cost"] = Cell(money, money_text(money, ""))
    return row


def _seconds(value: float) -> Cell:
    return Cell(value, f"{value:.0f}" if value >= 10 else f"{value:.1f}")


def _money(found: Forecast) -> list[str]:
    """The price of the wall-clock time of all devices, since builds cost as well."""
    rate = found.rate
    if rate is None:
        return ["no price: add --hourly-rate or [tool.flashbench.prices] to see the cost"]
    likely, low, high = (
        money_text(rate.price_of(value), rate.currency)
        for value in (found.paid.likely, found.paid.low, found.paid.high)
    )
    source = f" ({rate.source})" if rate.source else ""
    hourly = money_text(rate.hourly, rate.currency)
    return [f"money: about {likely}, {low} to {high}, at {hourly} an hour{source}"]


def _budget(found: Forecast) -> list[str]:
    if found.budget_seconds is None:
        return []
    if not found.over_budget:
        risk = found.counted.high > found.budget_seconds
        return [f"within --budget {found.budget}" + (", if it takes no more than likely" * risk)]
    over = f"over --budget {found.budget}"
    if found.begins_nothing:
        return [f"{over}: below half of the shortest start of workers here, nothing would be begun"]
    if found.ends_before_measuring:
        what = "builds and starting workers" if found.builds_count else "starting workers"
        return [f"{over}: {what} would likely spend it before anything is measured"]
    lines = [f"{over}: {found.left:.0f} s of it would be measured"]
    launches, cases = found.launches_that_fit(), found.cases_that_fit()
    if launches is None or cases is None or found.work is None:
        return lines
    named = ", ".join(case.id for case in cases[:_NAMED])
    more = f" and {len(cases) - _NAMED} more" if len(cases) > _NAMED else ""
    total = len(found.work.cases)
    lines.append(
        f"fits: {launches} of {found.work.launches} launches of all cases, or all launches of "
        f"{len(cases)} of {total} case{'s' * (total != 1)}" + (f": {named}{more}" if cases else "")
    )
    return lines


def _basis(found: Forecast) -> str | None:
    """The basis of the launches' estimate; builds may have another."""
    codes = [code for code, _ in found.sources]
    return next((code for code in ("known", "near", "guess") if code in codes), None)


def _summary(found: Forecast) -> dict[str, Value | dict[str, Value]]:
    summary: dict[str, Value | dict[str, Value]] = {
        "command": found.command,
        "machine": found.machine,
        "hourly_rate": found.rate.hourly if found.rate else None,
        "currency": (found.rate.currency if found.rate else "") or None,
        "price": (found.rate.source if found.rate else "") or None,
        "budget_seconds": found.budget_seconds,
        "over_budget": found.over_budget if found.budget_seconds is not None else None,
        "launches_that_fit": found.launches_that_fit(),
        "shards": " ".join(found.shards) or None,
        "based_on": _basis(found),
    }
    for name, seconds, paid in (
        ("device", found.device, found.device),
        ("build", found.builds, found.builds),
        ("wall", found.wall, found.paid),
    ):
        summary[f"{name}_seconds"] = seconds.likely
        summary[f"{name}_seconds_low"] = seconds.low
        summary[f"{name}_seconds_high"] = seconds.high
        summary[f"{name}_cost"] = found.rate.price_of(paid.likely) if found.rate else None
    return summary
