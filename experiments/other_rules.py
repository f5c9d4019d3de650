"""Other tools' rules for a change, at their defaults, reimplemented.

Each takes log times of A and B, (cases, processes, samples), A measured before B, and returns the
cases that it flags. The rules come from the sources named; t tests replace the bootstraps that
converge to them.
"""

from collections.abc import Callable

import numpy as np
import scipy.stats

from flashbench.arrays import BoolArray, FloatArray

Flags = BoolArray
Rule = Callable[[FloatArray, FloatArray], Flags]


def benchstat(a: FloatArray, b: FloatArray) -> Flags:
    """Mann-Whitney p < 0.05 on 10 results of one process (`go test -count=10`).
    Source: golang.org/x/perf/benchmath."""
    return _mann_whitney(a[:, 0, :10], b[:, 0, :10]) < 0.05


def asv_compare(a: FloatArray, b: FloatArray) -> Flags:
    """Median ratio beyond the factor 1.1 and Mann-Whitney p < 0.002, 2 processes x 10 repeats.
    Source: asv commands/compare.py, statistics.py (is_different)."""
    return _asv(a, b, 1.1)


def asv_compare_factor_101(a: FloatArray, b: FloatArray) -> Flags:
    """The same with `--factor 1.01`, our tolerance."""
    return _asv(a, b, 1.01)


def criterion(a: FloatArray, b: FloatArray) -> Flags:
    """t test of 100 samples, p < 0.05, and the interval of the change of means beyond 1 %.
    Source: criterion.rs analysis/compare.rs, report.rs (noise_threshold 0.01)."""
    old, new = np.exp(a[:, 0, :100]), np.exp(b[:, 0, :100])
    change = new.mean(axis=1) / old.mean(axis=1) - 1
    errors = [x.std(axis=1, ddof=1) / np.sqrt(x.shape[1]) / x.mean(axis=1) for x in (old, new)]
    error = np.hypot(*errors)
    found = scipy.stats.ttest_ind(new, old, axis=1, equal_var=False).pvalue < 0.05
    return found & ((change - 1.96 * error > 0.01) | (change + 1.96 * error < -0.01))


def nvbench_compare(a: FloatArray, b: FloatArray) -> Flags:
    """Means differ by more than the smaller relative standard deviation; 100 samples.
    Source: nvbench scripts/nvbench_compare.py."""
    old, new = np.exp(a[:, 0, :100]), np.exp(b[:, 0, :100])
    noise = [x.std(axis=1, ddof=1) / x.mean(axis=1) for x in (old, new)]
    return np.abs(new.mean(axis=1) / old.mean(axis=1) - 1) > np.minimum(*noise)


def pytest_benchmark_min_5(a: FloatArray, b: FloatArray) -> Flags:
    """`--benchmark-compare-fail=min:5%`, its documentation's example: the minimum of 100 rounds is
    more than 5 % slower. Source: pytest_benchmark/session.py, utils.py."""
    return b[:, 0, :100].min(axis=1) - a[:, 0, :100].min(axis=1) > np.log(1.05)


def pytest_benchmark_median_1(a: FloatArray, b: FloatArray) -> Flags:
    """`--benchmark-compare-fail=median:1%`, our tolerance."""
    medians = [np.median(x[:, 0, :100], axis=1) for x in (a, b)]
    return medians[1] - medians[0] > np.log(1.01)


RULES: tuple[Rule, ...] = (
    benchstat,
    asv_compare,
    asv_compare_factor_101,
    criterion,
    nvbench_compare,
    pytest_benchmark_min_5,
    pytest_benchmark_median_1,
)
PROCESSES, SAMPLES = 2, 100  # the most that any of them needs


def _asv(a: FloatArray, b: FloatArray, factor: float) -> Flags:
    old, new = (x[:, :2, :10].reshape(len(x), -1) for x in (a, b))
    change = np.abs(np.median(new, axis=1) - np.median(old, axis=1))
    return (change > np.log(factor)) & (_mann_whitney(old, new) < 0.002)


def _mann_whitney(x: FloatArray, y: FloatArray) -> FloatArray:
    p: FloatArray = scipy.stats.mannwhitneyu(x, y, axis=1).pvalue
    return np.nan_to_num(p, nan=1.0)  # all values equal
