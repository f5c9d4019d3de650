"""The percentiles of reports and the site: only those that a run file has samples for."""

import numpy as np
from synthetic import make_cases, make_run

from flashbench.figures.percentiles import percentiles
from flashbench.report import report_one
from flashbench.stats.quantile import samples_needed
from flashbench.table import Document


def table(launches: int) -> Document:
    run = make_run(np.random.default_rng(0), cases=make_cases(2), launches=launches)
    return percentiles(report_one(run))


def test_what_no_row_has_is_said_once() -> None:
    """No cell says that a number or an interval is unknown; the header says what each needs."""
    few = table(9)
    shown = [column for column in few.columns if column.shown != "data"]
    texts = [row[one.key].text for row in few.rows for one in shown if one.key in row]
    assert not [text for text in texts if "?" in text or "estimable" in text]
    titles = {one.key: one.title for one in shown}
    assert titles["p50_us"] == "p50 us [95 %]"
    said = " ".join(few.header)
    for name, q in (("p90", 0.9), ("p95", 0.95), ("p99", 0.99)):
        assert titles.get(f"{name}_us") in (None, f"{name} us")
        assert f"{name} needs {samples_needed(q)} " in said


def test_what_a_row_has_is_shown() -> None:
    """With its interval; nothing is said of it."""
    many = table(samples_needed(0.9))
    assert "p90 us [95 %]" in [column.title for column in many.columns]
    assert all("[" in row["p90_us"].text for row in many.rows)
    assert "p90" not in " ".join(many.header)
