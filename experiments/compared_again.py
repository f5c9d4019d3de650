"""How often is an unchanged family flagged if it is compared again with more launches?

python experiments/compared_again.py [families]       (seed 12; 64 cases, nominal 5 %)

Both files are extended together, and compared after each of these numbers of launches.
"""

import numpy as np
from families import rate, trials_argument
from simulated_noise import Noise, bimodal, heavy_tailed, normal, skewed

from flashbench.stats.family import look_price, simultaneous_alpha
from flashbench.stats.shift import paired_shift, unpaired_shift

LAUNCHES = (12, 20, 30, 45, 60)
CASES = 64


def flagged(noise: Noise, files: int, families: int, *, pays: bool) -> tuple[int, int]:
    """Families with an interval that excludes "no change" at the first look, and at any."""
    rng = np.random.default_rng(12)
    first = ever = 0
    for _ in range(families):
        old, new = noise(rng, (2, CASES, LAUNCHES[-1]))
        seen = []
        for look, n in enumerate(LAUNCHES):
            price = look_price(files * look) if pays else 1
            level = simultaneous_alpha(0.05, CASES * price)
            shifts = [
                paired_shift((y - x)[:n], level)
                if files == 1
                else unpaired_shift(x[:n], y[:n], level)
                for x, y in zip(old, new, strict=True)
            ]
            seen.append(any(shift.low > 0 or shift.high < 0 for shift in shifts))
        first += seen[0]
        ever += any(seen)
    return first, ever


def main() -> None:
    families = trials_argument(400)
    print("| files | noise | first look | any look, unpaid | any look, as `compare` pays |")
    print("|---|---|---|---|---|")
    for files in (1, 2):
        for noise in (normal, heavy_tailed, skewed, bimodal):
            first, unpaid = flagged(noise, files, families, pays=False)
            _, paid = flagged(noise, files, families, pays=True)
            cells = [rate(count, families) for count in (first, unpaid, paid)]
            print(f"| {files} | {noise.__name__} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
