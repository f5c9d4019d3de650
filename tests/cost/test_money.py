"""Amounts, prices and budgets as users write them."""

from datetime import date
from pathlib import Path

import pytest

from flashbench.cli.parameter_types import BudgetType, HourlyRate
from flashbench.cost.money import (
    DevicePrice,
    Money,
    money_text,
    parse_money,
    price_of,
    read_prices,
    seconds_of,
)
from flashbench.errors import InvalidInputError

PRICES = {
    "H100": DevicePrice(2.0, "usd", "a"),
    "H100 PCIe": DevicePrice(1.0, "usd", "b"),
    "L4": DevicePrice(0.5, "eur", "c"),
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("120s", 120.0),
        ("5m", 300.0),
        ("90", 90.0),
        ("0.50usd", Money(0.5, "usd")),
        (" 3 EUR ", Money(3.0, "eur")),
        (".5usd", Money(0.5, "usd")),
    ],
)
def test_budget_is_a_time_or_money(text: str, value: float | Money) -> None:
    """Both are distinguished by the number's suffix."""
    assert BudgetType().convert(text, None, None) == value


@pytest.mark.parametrize(
    "text", ["", "5min", "1xyz", "0usd", "-1usd", "nanusd", "1e3usd", "usd", "1 $", "0s", "1usd2"]
)
def test_what_is_neither_is_refused(text: str) -> None:
    """A unit that is not a currency is reported; nothing is misread."""
    with pytest.raises(Exception, match=r"no currency|neither a time nor|no amount|buys nothing"):
        BudgetType().convert(text, None, None)


def test_rates_are_written_again_as_they_were() -> None:
    """A task on another machine gets the requested rate, without an exponent."""
    for money in (Money(2.5, "usd"), Money(1e-7), Money(36.0, "eur")):
        assert HourlyRate().convert(str(money), None, None) == money


def test_money_buys_seconds_at_a_rate() -> None:
    """1 usd at 3600 usd an hour is a second; a rate without a currency is in the budget's."""
    assert seconds_of(Money(1, "usd"), DevicePrice(3600, "usd")) == 1.0
    assert seconds_of(Money(1, "eur"), DevicePrice(1800)) == 2.0
    assert seconds_of(7.0, None) == 7.0


@pytest.mark.parametrize("rate", [None, DevicePrice(0.0, "usd"), DevicePrice(2.0, "eur")])
def test_money_without_a_rate_in_its_currency_buys_nothing(rate: DevicePrice | None) -> None:
    """No rate and no exchange rate is invented."""
    with pytest.raises(InvalidInputError, match=r"^--budget 1usd: "):
        seconds_of(Money(1.0, "usd"), rate)


@pytest.mark.parametrize(
    ("device", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("NVIDIA L40S", None),
        ("NVIDIA H200", None),
        ("", None),
    ],
)
def test_price_is_found_by_whole_words_of_the_name(device: str, name: str | None) -> None:
    """An L40S is not an L4, and a GPU without a price has none."""
    assert price_of(PRICES, device) == (PRICES[name] if name else None)


def prices(folder: Path, entry: str) -> dict[str, DevicePrice]:
    (folder / "pyproject.toml").write_text(f"[tool.flashbench.prices]\n{entry}\n")
    return read_prices(folder)


def test_prices_have_a_date_and_a_source(tmp_path: Path) -> None:
    """Both go into the report, so that a reader can check the price."""
    found = prices(
        tmp_path, 'H100 = { hourly = "2.50usd", date = 2026-01-31, source = "example.com" }'
    )
    assert found == {"H100": DevicePrice(2.5, "usd", "H100, 2026-01-31, example.com", "2026-01-31")}
    assert prices(tmp_path, "") == {}


def test_prices_grow_old() -> None:
    """After a year; one that was given on the command line never does."""
    price = DevicePrice(2.5, "usd", "x", "2026-01-31")
    assert not price.doubt(date(2027, 1, 31))
    assert price.doubt(date(2027, 2, 1)) == "is more than a year old"
    assert price.doubt(date(2026, 1, 30)) == "has a date to come"
    assert not DevicePrice(2.5).doubt(date(2030, 1, 1))


@pytest.mark.parametrize(
    "entry",
    [
        "H100 = 2.5",
        'H100 = { hourly = "2.50usd" }',
        'H100 = { hourly = "2.50usd", date = "2026-01-31", source = "" }',
        'H100 = { hourly = "2.50usd", date = "soon", source = "x" }',
        'H100 = { hourly = "2.50usd", date = "2026-13-31", source = "x" }',
        'H100 = { hourly = "2.50", date = "2026-01-31", source = "x" }',
        'H100 = { hourly = "much", date = "2026-01-31", source = "x" }',
        'H100 = { hourly = "-1usd", date = "2026-01-31", source = "x" }',
        'H100 = { hourly = "1usd", date = "2026-01-31", source = "x", rate = 1 }',
        '"" = { hourly = "1usd", date = "2026-01-31", source = "x" }',
    ],
)
def test_wrong_price_names_file_and_entry(entry: str, tmp_path: Path) -> None:
    """A price that cannot be checked is none."""
    with pytest.raises(InvalidInputError, match=r"pyproject.toml: \[tool.flashbench.prices\]"):
        prices(tmp_path, entry)


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0.0, "0.00"), (1.5, "1.50"), (0.1, "0.10"), (0.0123, "0.012"), (0.00096, "0.00096")],
)
def test_small_amounts_keep_two_digits(amount: float, text: str) -> None:
    """What a minute costs is not rounded to nothing."""
    assert money_text(amount, "usd") == f"{text} usd"
    assert parse_money(text).amount == float(text)


@pytest.mark.parametrize(
    ("names", "said"),
    [(['""'], "a part of the device's"), (["EPYC", '"epyc"'], "names 'EPYC' twice")],
)
def test_names_of_prices_are_told_apart(tmp_path: Path, names: list[str], said: str) -> None:
    """A price belongs to one device."""
    rest = '= { hourly = "2.50usd", date = 2026-01-31, source = "example.com" }'
    with pytest.raises(InvalidInputError, match=said):
        prices(tmp_path, "\n".join(f"{name} {rest}" for name in names))
