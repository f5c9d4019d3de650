"""ncu's CSV, as three versions of it print one report of kernels on an H200."""

import pytest
from stored_profiles import stored

from flashbench.errors import NotMeasuredError
from flashbench.profile import counters
from flashbench.profile.ncu_csv import number_of, parse, scale_of


@pytest.mark.parametrize("version", ["2025.3-units", "2024.1", "2022.3"])
def test_versions_say_the_same(version: str) -> None:
    """Units, separators and columns differ between versions and options; numbers do not."""
    others, base = stored(f"bound-{version}"), stored("bound-2025.3")
    assert [row.name for row in others] == [row.name for row in base]
    for other, row in zip(others, base, strict=True):
        found, expected = counters.read(other.values), counters.read(row.values)
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            # They print six digits after the point, of megabytes too.
            assert found[name] == pytest.approx(
                value, rel=6e-3, abs=0.5e3 if "dram" in name else 0.01
            )


def test_units_are_seconds_and_bytes() -> None:
    """Durations come out in seconds and sizes in bytes, whatever was printed."""
    (first, *_) = stored("bound-2024.1")
    found = counters.read(first.values)
    assert first.name == "dram(const float4 *, long, float *)"
    assert 1e-4 < found["duration"] < 1.5e-4
    assert found["dram_read"] == pytest.approx(2**29, rel=0.01)
    assert found["grid"] == 1056


def test_page_with_a_line_a_counter() -> None:
    """The page `details`, which old versions print for `raw`, gives the same kernels."""
    rows = stored("details-2025.3")
    assert [row.name for row in rows] == [row.name for row in stored("bound-2025.3")][:2]
    for row, other in zip(rows, stored("bound-2025.3"), strict=False):
        name = "dram__throughput.avg.pct_of_peak_sustained_elapsed"
        assert row.values[name] == pytest.approx(other.values[name], abs=0.01)


def test_other_lines_are_passed_over() -> None:
    """What the program and ncu print before the table is none of it, nor a line that was cut."""
    text = '==PROF== Connected\nhello, world\n"ID","Kernel Name","gpu__time_duration.sum"\n'
    text += '"","","usecond"\n"0","k","1.5"\n"1","k2"\n'
    (row,) = parse(text, "x")
    assert row.values["gpu__time_duration.sum"] == pytest.approx(1.5e-6)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a,b\n1,2\n",
        '==ERROR== no permission "ID"\n',
        "\x00",
        '"ID","Kernel Name","Metric Name"\n"0","k","x"\n',
        f'"ID","Kernel Name"\n"0","{"k" * 2**18}"\n',
    ],
)
def test_no_csv_of_ncu(text: str) -> None:
    """Anything else is refused in one line that names the file."""
    with pytest.raises(NotMeasuredError, match=r"^x\.csv: not a CSV of ncu"):
        parse(text, "x.csv")


def test_a_byte_order_mark_is_no_part_of_the_header() -> None:
    """As Windows' shells and editors write it."""
    (row,) = parse('\ufeff"ID","Kernel Name","a.pct"\n"","","%"\n"0","k","12"\n', "x")
    assert row.values["a.pct"] == 12


def test_impossible_percentages() -> None:
    """A little above 100 is 100; far above, or below 0, is unknown, as another name may know."""
    newer, older = counters.NAMES["tensor"]
    (hits,), (l2,) = counters.NAMES["l2_hits"], counters.NAMES["l2"]
    found = counters.read({newer: 250.0, older: 40.0, hits: 101.5, l2: 1e6})
    assert found == {"tensor": 40.0, "l2_hits": 100.0}
    assert counters.read({newer: -3.0, counters.NAMES["grid"][0]: 132.0}) == {"grid": 132.0}


def test_decimal_commas() -> None:
    """Where one number can only have a decimal comma, all of the file have one."""
    text = '"ID","Kernel Name","a.pct","b.sum"\n"","","%","byte"\n"0","k","12,34","1.234.567"\n'
    (row,) = parse(text, "x")
    assert row.values == {"ID": 0, "a.pct": pytest.approx(12.34), "b.sum": 1234567}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,234.5", 1234.5),
        ("1\u202f234.5", 1234.5),
        ("1'234", 1234),
        ("-3e-2", -0.03),
        ("12 (FADD: 3; FMUL: 9)", 12),
        ("(!) 7", 7),
        ("n/a", None),
        ("nan", None),
        ("", None),
        ("(256, 1, 1)", None),
        ("9.0 or so", None),
        ("1e999", None),
        ("CachePreferNone", None),
    ],
)
def test_numbers(text: str, value: float | None) -> None:
    """A cell is a number, with its instances or a mark beside it, or none."""
    assert number_of(text) == value


@pytest.mark.parametrize(
    ("unit", "scale"),
    [
        ("nsecond", 1e-9),
        ("us", 1e-6),
        ("ms", 1e-3),
        ("s", 1),
        ("Kbyte/block", 1e3),
        ("MB", 1e6),
        ("Gbyte", 1e9),
        ("Kinst", 1e3),
        ("%", 1),
        ("", 1),
        ("sector", 1),
        ("register/thread", 1),
        ("msomething", 1),
    ],
)
def test_units(unit: str, scale: float) -> None:
    """A prefix counts before a unit that has one, and is otherwise a letter of a word."""
    assert scale_of(unit) == scale
