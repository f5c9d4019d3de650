"""How often does a family of unchanged cases get a FASTER or SLOWER?

python experiments/false_alarms.py [families]       (seed 1; 64 cases a family)
"""

import numpy as np
import simulated_noise as noises
from families import alarms, no_change, outcomes, rate, trials_argument

NOISES = (
    noises.normal,
    noises.heavy_tailed,
    noises.cauchy,
    noises.skewed,
    noises.quantised,
    noises.bimodal,
    noises.rarely_bimodal,
    noises.autocorrelated,
)


def count(
    noise: noises.Noise, files: int, launches: int, deviation: float, families: int, cases: int = 64
) -> int:
    """Families with at least one false alarm."""
    rng = np.random.default_rng(1)
    return sum(
        alarms(outcomes(no_change(rng, noise, deviation, files, (cases, launches)))) > 0
        for _ in range(families)
    )


def main() -> None:
    families = trials_argument(1000)
    print(f"{families} families of 64 cases; noise of 5 % and a drift that both of a pair share")
    print("| noise | files | 12 launches | 20 | 40 |\n|---|---|---|---|---|")
    for noise in NOISES:
        for files in (1, 2):
            counts = [count(noise, files, n, 0.05, families) for n in (12, 20, 40)]
            cells = " | ".join(rate(found, families) for found in counts)
            print(f"| {noise.__name__} | {files} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
