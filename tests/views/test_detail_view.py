"""What the detail view says of launches: their median, their spread, B's time over A's."""

import numpy as np
import pytest
from synthetic import make_cases, make_run

from flashbench.report import report_one, report_two
from flashbench.views import detail, frame


def _runs(launches=12):
    rng = np.random.default_rng(1)
    return [make_run(rng, cases=make_cases(3), launches=launches) for _ in range(2)]


def test_every_row_tells_its_launches_and_its_spread():
    """Median launch with its interval, variance inside and between launches, autocorrelation."""
    for row in detail.document(report_one(_runs()[0])).rows:
        assert row["launches_low_us"].value <= row["launches_us"].value
        assert row["launches_us"].value <= row["launches_high_us"].value
        assert row["launches_us"].value == pytest.approx(row["p50_us"].value, rel=0.01)
        assert row["within_sd_percent"].value > 0
        assert row["between_sd_percent"].value >= 0
        assert -1 < row["sample_correlation"].value < 1


def test_two_files_tell_the_time_of_b_over_that_of_a():
    """Rows of B have the ratio of the median launches, with bounds around it; those of A none."""
    document = detail.document(report_two(*_runs()))
    keys = {(r["file"].value, r["case"].value, r["candidate"].value): r for r in document.rows}
    for (name, case, candidate), row in keys.items():
        if name == "A":
            assert "over_a" not in row
            continue
        expected = row["launches_us"].value / keys["A", case, candidate]["launches_us"].value
        assert row["over_a"].value == pytest.approx(expected)
        assert row["over_a_low"].value <= expected <= row["over_a_high"].value


def test_few_launches_have_no_bootstrap():
    """5 launches give their median without an interval."""
    for row in detail.document(report_two(*_runs(launches=5))).rows:
        assert row["launches_us"].text.endswith("[?, ?]")
        assert "over_a" not in row


@pytest.mark.parametrize(
    ("revision", "called"), [("", ""), ("0123", ""), ("0123456789abcdef", ""), ("v1", " (v1)")]
)
def test_a_revision_that_is_its_commit_is_named_once(revision: str, called: str) -> None:
    """Other words for it, a tag or a branch, stand behind the commit."""
    run = _runs()[0]
    run.candidates[0].build.revision = revision
    (line,) = frame.identity(report_one(run))
    assert line.endswith(f" at 0123456789ab{called}")
