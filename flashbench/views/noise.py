"""The view of `flashbench aa`: a build's false alarms against itself, and its detectable change."""

import math

from flashbench.aa import MOST_LAUNCHES, CaseNoise, SelfComparison
from flashbench.cost.spent import Spent
from flashbench.stats.proportion import Rate
from flashbench.table import (
    NONE,
    Cell,
    Column,
    Document,
    Note,
    Value,
    count_cell,
    name_column,
    percent_cell,
    percentage,
    text_cell,
)
from flashbench.views import frame

SHOWN_LAUNCHES = (5, 10, 20, 40)


def document(found: SelfComparison) -> Document:
    """One row per case; the family-wise rates are below the table."""
    run = found.data.run
    header = [
        *frame.run_identity("", found.data),
        f"a build against itself: {found.family.trials} comparisons of {found.launches} launches, "
        f"{_cases(len(found.cases))} together, {percentage(1 - found.alpha)}, tolerance "
        f"{percentage(found.tolerance)}",
        "detects % in N = change that N launches detect with 80 % power",
    ]
    return Document(
        "noise",
        header,
        _columns(),
        [_row(noise, found.tolerance) for noise in found.cases],
        _summary(found),
        _footer(found),
        [
            Note("not-measured", f"{case.id}: not measured in any launch")
            for case in run.cases
            if case.id not in {noise.case.id for noise in found.cases}
        ]
        + frame.failures("", found.data, range(len(run.candidates))),
    )


def _cases(count: int) -> str:
    return f"{count} case{'s' * (count != 1)}"


def _columns() -> list[Column]:
    detects = [Column(f"detectable80_{n}_percent", f"detects % in {n}") for n in SHOWN_LAUNCHES]
    detects += [
        Column(f"detectable95_{n}_percent", f"95: % in {n}", "wide") for n in SHOWN_LAUNCHES
    ]
    return [
        name_column("case", "case"),
        Column("alarms", "alarms"),
        Column("comparisons", "", "data"),
        Column("alarm_rate_low", "", "data"),
        Column("alarm_rate_high", "", "data"),
        Column("undecided", "undecided", "wide"),
        Column("deviation_percent", "sd %"),
        *detects,
        Column("launches_for_twice_tolerance", "to plan"),
    ]


def _row(noise: CaseNoise, tolerance: float) -> dict[str, Cell]:
    low, high = noise.alarms.interval()
    planned = noise.launches_for(2 * tolerance, 0.8)
    row = {
        "case": text_cell(noise.case.id),
        "alarms": Cell(noise.alarms.count, f"{noise.alarms.count}/{noise.alarms.trials}"),
        "comparisons": Cell(noise.alarms.trials),
        "alarm_rate_low": Cell(low),
        "alarm_rate_high": Cell(high),
        "undecided": count_cell(noise.undecided),
        "deviation_percent": percent_cell(noise.deviation),
        "launches_for_twice_tolerance": (
            Cell(None, f"> {MOST_LAUNCHES}") if planned is None else count_cell(planned)
        ),
    }
    for power in (0.8, 0.95):
        for n in SHOWN_LAUNCHES:
            change = float(noise.detectable[power][n - 1])
            cell = percent_cell(change) if math.isfinite(change) else NONE
            row[f"detectable{100 * power:.0f}_{n}_percent"] = cell
    return row


def _summary(found: SelfComparison) -> dict[str, Value | dict[str, Value]]:
    return {
        "comparisons": found.family.trials,
        "launches": found.launches,
        "tolerance": found.tolerance,
        "confidence": round(1 - found.alpha, 12),
        "alarms": _rate(found.alarms),
        "family_alarms": _rate(found.family),
        "family_alarms_fixed": _rate(found.fixed),
        **Spent.of(found.data.run).summary(),
    }


def _rate(rate: Rate) -> dict[str, Value]:
    low, high = rate.interval()
    value = rate.value if rate.trials else None
    return {
        "count": rate.count,
        "trials": rate.trials,
        "rate": value,
        "rate_low": low,
        "rate_high": high,
    }


def _footer(found: SelfComparison) -> list[str]:
    plans = [noise.launches_for(2 * found.tolerance, 0.8) for noise in found.cases]
    known = sorted(n for n in plans if n is not None)
    change = percentage(2 * found.tolerance)
    if len(known) == len(plans) and plans:
        plan = f"launches to plan: {known[len(known) // 2]} see {change} in half of the cases, "
        plan += f"{known[-1]} in all"
    else:
        missing = len(plans) - len(known)
        plan = f"launches to plan: more than {MOST_LAUNCHES} to see {change} in {_cases(missing)}"
    return [
        f"false alarms a case: {_shown(found.alarms)}",
        f"families with any false alarm: {_shown(found.family)} looking after each launch, "
        f"{_shown(found.fixed)} looking once",
        plan,
        Spent.of(found.data.run).line,
    ]


def _shown(rate: Rate) -> str:
    low, high = rate.interval()
    return f"{rate.count} of {rate.trials} ({100 * low:.1f} to {100 * high:.1f} %)"
