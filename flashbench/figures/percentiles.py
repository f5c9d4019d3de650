"""The percentiles of a run file's candidates, as reports and the site show them."""

from dataclasses import replace

from flashbench.report import Report
from flashbench.stats.quantile import samples_needed
from flashbench.table import Cell, Document, time_cell
from flashbench.views import detail

_LEFT_OUT = {  # other parts of the page have it, or `show --view detail`
    *("min_us", "max_us", "between_sd_percent", "within_sd_percent"),
    *("sample_correlation", "spread_percent", "memory_mb"),
}


def percentiles(report: Report) -> Document:
    """The detail view without percentiles that no row has enough samples for, and without brackets
    where no row has enough launches; the header says so once."""
    table = detail.document(report)
    measured = [row for row in table.rows if "samples" in row]
    absent, endless = [], []
    for name in (*detail.QUANTILES, "launches") if measured else ():
        if all(row[f"{name}_us"].value is None for row in measured):
            absent.append(name)
        elif not any(f"{name}_low_us" in row for row in measured):
            endless.append(name)
    titles = {f"{name}_us": f"{name} us" for name in endless}
    left_out = _LEFT_OUT | {f"{name}_us" for name in absent}
    columns = [
        replace(column, title=titles.get(column.key, column.title))
        for column in table.columns
        if column.key not in left_out
    ]
    rows = [row | {key: _number(row[key]) for key in titles if key in row} for row in table.rows]
    header = ["percentiles over the samples of all launches, launches = median of their medians"]
    if absent:
        header.append(f"not shown, too few samples: {_needs(absent, 'samples')}")
    if endless:
        header.append(f"without an interval, too few launches: {_needs(endless, 'launches')}")
    return replace(table, header=header, notes=[], columns=columns, rows=rows)


def _number(cell: Cell) -> Cell:
    """The cell without its interval."""
    return time_cell(cell.value) if isinstance(cell.value, float) else cell


def _needs(names: list[str], what: str) -> str:
    """What each of the columns would need."""
    needed = {name: samples_needed(q) for name, q in detail.QUANTILES.items()}
    needed["launches"] = detail.MIN_BOOTSTRAP
    return ", ".join(f"{name} needs {needed[name]} {what}" for name in names)
