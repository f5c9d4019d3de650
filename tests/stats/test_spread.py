"""Variance inside launches and between them, and what resembles its neighbour."""

import numpy as np
import pytest
from simulated_noise import autoregressive

from flashbench.stats.spread import spread


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.8])
def test_components_are_found(rho):
    """1 % inside launches and 2 % between them are separated at any autocorrelation."""
    rng = np.random.default_rng(1)
    samples = 0.01 * autoregressive(rho)(rng, (400, 60)) + 0.02 * rng.standard_normal((400, 1))
    found = spread(list(samples))
    assert found.within == pytest.approx(0.01, rel=0.1)
    assert found.between == pytest.approx(0.02, rel=0.1)
    assert found.correlation == pytest.approx(rho, abs=0.05)


def test_launches_that_do_not_differ():
    """Samples with no launch in them show next to no spread between launches."""
    samples = 0.01 * np.random.default_rng(2).standard_normal((40, 50))
    assert spread(list(samples)).between < 0.001


def test_too_few_to_tell():
    """One sample tells nothing, one launch nothing of others, equal samples no correlation."""
    assert spread([np.array([1.0])]) == spread([])
    assert spread([np.array([1.0])]).within is None
    one = spread([np.array([1.0, 2.0, 4.0, 3.0])])
    assert one.between is None
    assert one.within == pytest.approx(1.2909944)
    assert spread([np.ones(10)] * 3).correlation is None


def test_the_error_of_a_launchs_mean_is_the_block_bootstraps():
    """sd sqrt((1 + rho) / (1 - rho) / n) is what arch's stationary block bootstrap finds."""
    bootstrap = pytest.importorskip("arch.bootstrap", reason="arch is not installed")
    samples = autoregressive(0.6)(np.random.default_rng(3), (1, 4000))[0]
    found = spread([samples])
    ours = found.within * np.sqrt((1 + found.correlation) / (1 - found.correlation) / 4000)
    block = float(bootstrap.optimal_block_length(samples)["stationary"].iloc[0])
    resampled = bootstrap.StationaryBootstrap(block, samples, seed=4).apply(np.mean, 1000)
    assert ours == pytest.approx(resampled.std(), rel=0.2)
