"""A launch's number: what is made of the samples of two candidates."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import make_cases, make_run

from flashbench.launches import launch_data
from flashbench.runfile import RunFile

RUN = make_run(np.random.default_rng(0), cases=make_cases(1), launches=1, samples=2)


def one_launch(ours: list[list[float]], sdpa: list[list[float]]) -> RunFile:
    """A run of one launch with these log times of each candidate's blocks."""
    for result in RUN.launches[0].results:
        blocks = ours if result.candidate == "ours" else sdpa
        result.timings[0].seconds = [math.exp(value) for block in blocks for value in block]
        result.timings[0].block = [place for place, block in enumerate(blocks) for _ in block]
    return RUN


LOGS = st.lists(st.floats(-3, 3), min_size=1, max_size=7)
BLOCKS = st.lists(st.tuples(LOGS, LOGS), min_size=1, max_size=4)


@given(BLOCKS)
def test_speed_up_is_the_median_of_all_pairs_of_a_block(blocks: list[tuple[list[float], ...]]):
    """With however many samples on either side; the other way round it is the same change."""
    ours, sdpa = [list(side) for side in zip(*blocks, strict=True)]
    pairs = [b - a for block in blocks for a, b in product(*block)]
    data = launch_data(one_launch(ours, sdpa))
    assert data.speedups(0, 1)[0, 0] == pytest.approx(np.median(pairs), abs=1e-9)
    assert data.speedups(1, 0)[0, 0] == pytest.approx(-np.median(pairs), abs=1e-9)


def test_a_speed_up_over_launches_is_the_median_of_theirs():
    """Not the ratio of median times: machines differ between launches, and that cancels in each."""
    run = make_run(np.random.default_rng(3), cases=make_cases(2), launches=5, between=0.3)
    data = launch_data(run)
    of_launches = np.exp(np.median(data.speedups(0, 1), axis=1))
    assert data.median_speedups(0, 1) == pytest.approx(of_launches)
    of_medians = np.exp(
        np.median(data.log_median[1], axis=1) - np.median(data.log_median[0], axis=1)
    )
    assert not np.allclose(of_medians, of_launches, rtol=0.005)


def test_a_sample_in_five_that_is_disturbed_changes_little():
    """On a busy CPU most blocks have a sample that was interrupted: it does not count as speed."""
    rng = np.random.default_rng(1)
    ours, sdpa = rng.normal(0, 0.01, (2, 8, 5))
    before = launch_data(one_launch(ours.tolist(), sdpa.tolist())).speedups(0, 1)
    ours[:, 2] += rng.exponential(2, 8)
    after = launch_data(one_launch(ours.tolist(), sdpa.tolist())).speedups(0, 1)
    assert after == pytest.approx(before, abs=0.005)


def test_quantiles_stand_for_the_samples_of_large_blocks():
    """300 samples of a block have 90 000 pairs: their quantiles say the same."""
    rng = np.random.default_rng(2)
    ours, sdpa = rng.gamma(2, 0.01, (2, 2, 300))
    found = launch_data(one_launch(ours.tolist(), (sdpa + 0.03).tolist())).speedups(0, 1)[0, 0]
    pairs = np.subtract.outer(sdpa + 0.03, ours)
    assert found == pytest.approx(np.median([pairs[0, :, 0], pairs[1, :, 1]]), abs=3e-4)


def test_launch_drift_inside_a_launch_cancels_in_the_blocks():
    """Log-ratios are taken block by block: a launch that slows down fourfold loses nothing."""
    run = make_run(
        np.random.default_rng(1), cases=make_cases(1), launches=12, samples=40, between=0, within=0
    )
    for launch in run.launches:
        for result in launch.results:
            timing = result.timings[0]
            offset = 0.0 if result.candidate == "sdpa" else 0.05
            timing.seconds = [
                s * (1 + 3 * block / 20) * math.exp(offset) if block % 3 else s
                for s, block in zip(timing.seconds, timing.block, strict=True)
            ]
            if result.candidate == "ours":  # half of its blocks were dropped: medians mislead
                timing.seconds, timing.block = timing.seconds[20:], timing.block[20:]
    data = launch_data(run)
    assert data.speedups(0, 1) == pytest.approx(np.full((1, 12), -0.05), abs=1e-9)
    medians = data.log_median[1] - data.log_median[0]
    assert not np.allclose(medians, -0.05, atol=0.05)
