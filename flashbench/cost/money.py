"""Money: amounts, hourly rates, prices from the settings, and budgets in time or money."""

import datetime
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from flashbench.errors import InvalidInputError
from flashbench.pyproject import find_pyproject, read_pyproject, table_of

# Codes of ISO 4217 that clouds bill in. `5min` is no amount of money.
CURRENCIES = (
    "aud", "brl", "cad", "chf", "cny", "czk", "dkk", "eur", "gbp", "hkd", "huf", "idr", "ils",
    "inr", "jpy", "krw", "mxn", "nok", "nzd", "pln", "ron", "sek", "sgd", "thb", "try", "twd",
    "usd", "zar",
)  # fmt: skip
_AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+) *([a-zA-Z]{3})?")
_PRICE_KEYS = ("hourly", "date", "source")


@dataclass(frozen=True)
class Money:
    """An amount; currency "": not given."""

    amount: float
    currency: str = ""

    def __str__(self) -> str:
        return f"{Decimal(repr(self.amount)).normalize():f}{self.currency}"


@dataclass(frozen=True)
class DevicePrice:
    """The hourly price of a machine. source: where readers can check it; date: of a price from the
    settings."""

    hourly: float
    currency: str = ""
    source: str = ""
    date: str = ""  # YYYY-MM-DD

    def doubt(self, today: datetime.date) -> str:
        """Why the price's date makes it doubtful, or ""."""
        age = (today - datetime.date.fromisoformat(self.date)).days if self.date else 0
        return "is more than a year old" if age > 365 else "has a date to come" if age < 0 else ""

    def price_of(self, seconds: float) -> float:
        """The price of this many seconds."""
        return self.hourly * seconds / 3600


def seconds_of(budget: float | Money, rate: DevicePrice | None) -> float:
    """The device seconds that a budget in seconds or money pays for. InvalidInputError if money has
    no rate, or one in another currency."""
    if isinstance(budget, float):
        return budget
    if rate is not None and not rate.hourly:
        raise InvalidInputError(
            f"--budget {budget}: an hour that costs 0 never spends it; correct the hourly rate, or "
            "write the budget as a time"
        )
    if rate is None:
        raise InvalidInputError(
            f"--budget {budget}: what an hour of this machine costs is not known; add "
            "--hourly-rate, a price to [tool.flashbench.prices], or write the budget as a time"
        )
    if rate.currency not in ("", budget.currency):
        raise InvalidInputError(
            f"--budget {budget}: the hourly rate is in {rate.currency}; write both in one currency"
        )
    return budget.amount / rate.hourly * 3600


def parse_money(text: str) -> Money:
    """`0.50usd`, `2.5` without a currency. InvalidInputError with the accepted forms."""
    match = _AMOUNT.fullmatch(text.strip())
    amount = float(match[1]) if match else math.nan
    currency = (match[2] or "").lower() if match else ""
    if currency and currency not in CURRENCIES:
        raise InvalidInputError(
            f"{text!r}: {currency!r} is no currency; write one of {', '.join(CURRENCIES)}"
        )
    if not 0 <= amount < math.inf:
        raise InvalidInputError(f"{text!r} is no amount of money; write one such as 2.50usd")
    return Money(amount, currency)


def money_text(amount: float, currency: str) -> str:
    """An amount for readers: in cents, or with two digits if below one."""
    digits = 2 if amount >= 0.095 or amount < 1e-9 else 1 - math.floor(math.log10(amount))
    return f"{amount:.{digits}f} {currency}".rstrip()


def read_prices(start: Path) -> dict[str, DevicePrice]:
    """`[tool.flashbench.prices]` of the nearest pyproject.toml, by a part of a device's name.

    InvalidInputError names the file and the invalid entry.
    """
    file = find_pyproject(start.absolute())
    if file is None:
        return {}
    table = table_of(file, read_pyproject(file), "prices")
    for name in table:
        if [_words(other) for other in table].count(_words(name)) > 1:
            raise InvalidInputError(
                f"{file}: [tool.flashbench.prices] names {name!r} twice; keep one price of it"
            )
    return {name: _rate(f"{file}: [tool.flashbench.prices] {name!r}", entry, name)
            for name, entry in table.items()}  # fmt: skip


def _rate(where: str, entry: Any, name: str) -> DevicePrice:
    example = '{ hourly = "2.50usd", date = "2026-01-31", source = "where it can be read" }'
    if not isinstance(entry, dict) or sorted(entry) != sorted(_PRICE_KEYS):
        raise InvalidInputError(f"{where} must be {example}")
    hourly, day, source = (entry[key] for key in _PRICE_KEYS)
    if not _words(name):
        raise InvalidInputError(f"{where}: the name must be a part of the device's, such as H100")
    if not isinstance(source, str) or not source.strip():
        raise InvalidInputError(f"{where}: source must say where the price can be read")
    if not _is_date(str(day)):
        raise InvalidInputError(f"{where}: date must be written as 2026-01-31")
    try:
        money = parse_money(str(hourly))
    except InvalidInputError as error:
        raise InvalidInputError(f"{where}: hourly: {error}") from None
    if not money.currency:
        raise InvalidInputError(f"{where}: hourly must name its currency, as in 2.50usd")
    return DevicePrice(money.amount, money.currency, f"{name}, {day}, {source}", str(day))


def _is_date(text: str) -> bool:
    try:
        return datetime.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def price_of(prices: Mapping[str, DevicePrice], device: str) -> DevicePrice | None:
    """The price whose name is part of the device's, in whole words; the longest wins."""
    words = _words(device)
    found = [name for name in prices if f" {_words(name)} " in f" {words} "]
    return prices[max(found, key=len)] if found else None


def _words(name: str) -> str:
    return " ".join(re.findall(r"[a-z0-9.]+", name.lower()))
