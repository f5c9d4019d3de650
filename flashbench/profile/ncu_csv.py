"""Parse the output of any version of `ncu --csv`: one line per kernel with a row of units, or one
line per counter; numbers with any locale's separators.

The text is untrusted: kernel names are any names of functions.
"""

import csv
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from flashbench.errors import NotMeasuredError

_MAX_KERNELS = 10_000
_KERNEL, _METRIC, _UNIT, _VALUE = "Kernel Name", "Metric Name", "Metric Unit", "Metric Value"
_NUMBER = re.compile(
    r"(?:\(!\) *)?([-+]?[0-9][0-9.,'\u00a0\u202f ]*(?:[eE][-+]?[0-9]+)?)(?= *(?:[(;]|$))"
)
_SPACES = re.compile(r"['\u00a0\u202f ]")
# Certainly a decimal comma: after a 0, not before three digits, or after a dot.
_DECIMAL_COMMA = re.compile(r"^-?(?:0,\d+|\d+,(?:\d{1,2}|\d{4,})|\d{1,3}(?:\.\d{3})+,\d+)$")
_PREFIXES = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_SCALED = re.compile(r"(?P<prefix>[numKMGT]?)(?:second|byte|inst|cycle|sector|s|B)\b")


@dataclass(slots=True)
class KernelRow:
    """One kernel of a report. values: by ncu's names, in seconds, bytes, cycles and percent."""

    name: str
    values: dict[str, float] = field(default_factory=dict)


def parse(text: str, name: str) -> list[KernelRow]:
    """The kernels in execution order. name: of the text in messages.

    Raises NotMeasuredError if it is not ncu's CSV.
    """
    try:
        rows = list(csv.reader(text.removeprefix("\ufeff").splitlines()))
    except csv.Error as error:
        raise NotMeasuredError(f"{name}: not a CSV of ncu: {error}") from None
    start = next((at for at, row in enumerate(rows) if _KERNEL in row and "ID" in row), len(rows))
    header = rows[start] if start < len(rows) else []
    needed = [_KERNEL, *([_UNIT, _VALUE] if _METRIC in header else [])]
    if lacking := [column for column in needed if column not in header]:
        raise NotMeasuredError(f"{name}: not a CSV of ncu: it has no column {lacking[0]!r}")
    body = [row for row in rows[start + 1 :] if len(row) == len(header)]
    cells = _by_kernel_row if _METRIC in header else _by_counter_column
    found: dict[str, KernelRow] = {}
    decimal_comma = any(_DECIMAL_COMMA.match(cell) for row in body for cell in row)
    for number, kernel, metric, unit, value in cells(header, body):
        if len(found) >= _MAX_KERNELS:
            raise NotMeasuredError(f"{name}: more than {_MAX_KERNELS} kernels; profile one call")
        row = found.setdefault(number, KernelRow(kernel))
        read = number_of(value, decimal_comma=decimal_comma)
        if read is not None:
            row.values[metric] = read * scale_of(unit)
    return list(found.values())


_Cells = Iterable[tuple[str, str, str, str, str]]  # ID, kernel, metric, unit, value


def _by_counter_column(header: Sequence[str], body: Sequence[Sequence[str]]) -> _Cells:
    """Parse the page `raw`: one column per counter, units in the first row, whose ID is empty."""
    at_id, at_kernel = header.index("ID"), header.index(_KERNEL)
    units = next((row for row in body if not row[at_id].strip()), [""] * len(header))
    for row in body:
        if row[at_id].strip():
            for metric, unit, value in zip(header, units, row, strict=True):
                yield row[at_id], row[at_kernel], metric, unit, value


def _by_kernel_row(header: Sequence[str], body: Sequence[Sequence[str]]) -> _Cells:
    """Parse the page `details`, and versions before 2020.2: one row per counter."""
    columns = [header.index(name) for name in ("ID", _KERNEL, _METRIC, _UNIT, _VALUE)]
    for row in body:
        number, kernel, metric, unit, value = (row[column] for column in columns)
        yield number, kernel, metric, unit, value


def number_of(text: str, *, decimal_comma: bool = False) -> float | None:
    """The number at the start of a cell; None for "n/a", "nan" and words."""
    match = _NUMBER.match(text.strip())
    if match is None:
        return None
    plain = _SPACES.sub("", match[1])
    plain = plain.replace(".", "").replace(",", ".") if decimal_comma else plain.replace(",", "")
    try:
        value = float(plain)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def scale_of(unit: str) -> float:
    """The factor from this unit to its base unit: "usecond" 1e-6, "Kbyte/block" 1e3, "%" 1."""
    match = _SCALED.match(unit)
    return _PREFIXES[match["prefix"]] if match else 1.0
