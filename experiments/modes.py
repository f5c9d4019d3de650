"""How often does `two_modes` report two modes of one, and of two?

python experiments/modes.py [trials]       (seed 6)
"""

import numpy as np
import simulated_noise as noises
from families import rate, trials_argument

from flashbench.stats.modes import two_modes


def seen(noise: noises.Noise, launches: int, trials: int) -> int:
    """Trials in which two modes are reported."""
    rng = np.random.default_rng(6)
    return sum(two_modes(noise(rng, (launches,)), 0.0) is not None for _ in range(trials))


def main() -> None:
    trials = trials_argument(4000)
    print("| noise | 6 launches | 8 | 12 | 20 | 40 |\n|---|---|---|---|---|---|")
    for noise in (
        noises.normal,
        noises.heavy_tailed,
        noises.cauchy,
        noises.skewed,
        noises.bimodal,
        noises.rarely_bimodal,
    ):
        cells = [rate(seen(noise, n, trials), trials) for n in (6, 8, 12, 20, 40)]
        print(f"| {noise.__name__} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
