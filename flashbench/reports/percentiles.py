"""The percentiles of a run file's candidates, as reports and the site show them."""

from dataclasses import replace

from flashbench.report import Report
from flashbench.stats.quantile import samples_needed
from flashbench.table import Cell, Document
from flashbench.views import detail

_LEFT_OUT = {  # other parts of the page have it, or `show --view detail`
    *("min_us", "max_us", "between_sd_percent", "within_sd_percent"),
    *("sample_correlation", "spread_percent", "memory_mb"),
}
_UNKNOWN, _TITLE = " [?, ?]", " [95 %]"


def percentiles(report: Report) -> Document:
    """The detail view without percentiles that no row has enough samples for, and without brackets
    where no row has enough launches; the header says so once."""
    table = detail.document(report)
    columns, rows = [], table.rows
    absent, endless = [], []
    for column in table.columns:
        texts = {row[column.key].text for row in rows if column.key in row}
        name = column.key.removesuffix("_us")
        if column.key in _LEFT_OUT:
            continue
        if texts == {detail.NOT_ESTIMABLE}:
            absent.append(name)
            continue
        if texts and all(text.endswith(_UNKNOWN) for text in texts):
            endless.append(name)
            rows = [_without_brackets(row, column.key) for row in rows]
            column = replace(column, title=column.title.removesuffix(_TITLE))
        columns.append(column)
    header = ["percentiles over the samples of all launches, launches = median of their medians"]
    if absent:
        header.append(f"not shown, too few samples: {_needs(absent, 'samples')}")
    if endless:
        header.append(f"without an interval, too few launches: {_needs(endless, 'launches')}")
    return replace(table, header=header, notes=[], columns=columns, rows=rows)


def _without_brackets(row: dict[str, Cell], key: str) -> dict[str, Cell]:
    cell = row.get(key)
    return (
        row if cell is None else row | {key: replace(cell, text=cell.text.removesuffix(_UNKNOWN))}
    )


def _needs(names: list[str], what: str) -> str:
    """What each of the columns would need."""
    needed = {name: samples_needed(q) for name, q in detail.QUANTILES.items()}
    needed["launches"] = detail.MIN_BOOTSTRAP
    return ", ".join(f"{name} needs {needed[name]} {what}" for name in names)
