"""Types of command-line arguments: times, numbers, fractions, paths."""

import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flashbench.cost.money import Money, parse_money
from flashbench.errors import InvalidInputError

if TYPE_CHECKING:
    from click import ParamType
else:

    class ParamType(click.ParamType):
        """Can be subscripted with a type, as click's own from 8.4 on."""

        def __class_getitem__(cls, _converted):
            return cls


@contextmanager
def refused_as(context: click.Context, parameter: click.Parameter) -> Iterator[None]:
    """Name the option in what is refused of its value."""
    try:
        yield
    except InvalidInputError as error:
        raise click.BadParameter(str(error), context, parameter) from None


_UNITS = {"us": 1e-6, "ms": 1e-3, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_MONEY = re.compile(r"[0-9.]+ *[a-zA-Z]{3}")
_BUDGETS = "60s, 10m or 0.50usd"
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+) *(us|ms|s|m|h|)")


class Duration(ParamType[float]):
    """`200us`, `250ms`, `60s`, `5m`, `1h`, or a number of seconds; more than zero."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        match = _DURATION.fullmatch(str(value).strip())
        seconds = float(match[1]) * _UNITS[match[2]] if match else math.nan
        if isinstance(value, float):  # of Python, which may write 1e-05
            seconds = value
        if not 0 < seconds < math.inf:
            self.fail(f"{value!r} is not a time; write 200us, 250ms, 60s, 5m or 1h", param, ctx)
        return seconds


class BudgetType(ParamType["float | Money"]):
    """A `Duration` in seconds, or money with its currency, `0.50usd`; more than zero."""

    name = "time or money"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | Money:
        text = str(value).strip()
        is_money = _MONEY.fullmatch(text)
        if not is_money and not _DURATION.fullmatch(text):
            self.fail(f"{value!r} is neither a time nor money; write {_BUDGETS}", param, ctx)
        if not re.search("[1-9]", text):
            self.fail(f"{value!r} buys nothing; write {_BUDGETS}", param, ctx)
        return (HourlyRate() if is_money else Duration()).convert(value, param, ctx)


class HourlyRate(ParamType[Money]):
    """The price of an hour: `2.50usd`, or a number without a currency."""

    name = "money"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Money:
        try:
            return parse_money(str(value))
        except InvalidInputError as error:
            self.fail(str(error), param, ctx)


class Dollars(ParamType[float]):
    """`5usd` or `5`, more than zero: a limit for SkyPilot, which knows prices in dollars alone."""

    name = "dollars"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        money = HourlyRate().convert(value, param, ctx)
        if not money.amount or money.currency not in ("", "usd"):
            self.fail(f"{value!r} is not above zero in dollars; write one such as 5usd", param, ctx)
        return money.amount


class Count(click.IntRange):
    """A whole number between two bounds, inclusive."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            if isinstance(value, bool | float):  # of Python, which int() would take
                raise TypeError
            return int(super().convert(value, param, ctx))
        except (click.BadParameter, TypeError):
            least, most = self.min, self.max
            bounds = f"from {least} to {most}" if most is not None else f"of {least} or more"
            self.fail(f"{value!r} is not a whole number {bounds}", param, ctx)


class Number(ParamType[float]):
    """A finite number that is zero or more, or above zero."""

    name = "number"

    def __init__(self, *, above_zero: bool = False) -> None:
        self.above_zero = above_zero

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not 0 <= number < math.inf or (self.above_zero and not number):
            bound = "above zero" if self.above_zero else "of zero or more"
            self.fail(f"{value!r} is not a number {bound}; write one such as 2.5", param, ctx)
        return number


class Fraction(ParamType[float]):
    """`1%` or `0.01`, between two bounds, exclusive."""

    name = "fraction"

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        text = str(value).strip()
        try:
            number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            number = float("nan")
        if not self.low < number < self.high:
            self.fail(
                f"{text!r} is not a fraction above {self.low:g} and below {self.high:g}; "
                f"write {'95% or 0.95' if self.low >= 0.5 else '1% or 0.01'}",
                param,
                ctx,
            )
        return number


class PathType(click.Path):
    """A non-empty path: `Path("")` would be the working directory."""

    def __init__(self, *, file: bool = True, folder: bool = True) -> None:
        super().__init__(path_type=Path, file_okay=file, dir_okay=folder)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str | os.PathLike):
            self.fail(f"{value!r} is not a path", param, ctx)
        if not str(value):  # an unset shell variable
            self.fail("an empty path names no file", param, ctx)
        return super().convert(value, param, ctx)
