"""What it costs to hold 5 % for correlated launches: false alarms at any look, and launches.

python experiments/correlated_launches.py [families] [seed] [cases ...]

The rule's evidence against "no change" is divided by how much better correlated launches without a
change explain what was seen than independent ones do: the largest likelihood of AR(1) launches
with rho from 0 to a limit, over that of rho = 0 (Wasserman, Ramdas & Balakrishnan, Universal
inference, 2020). For normal launches the quotient is below 1 / alpha with 1 - alpha at all looks,
whatever rho is. `share` is the exponent of that likelihood ratio: below 1 nothing is promised.

A family is flagged if the evidence is enough for any case at a look up to 40. Launches: the mean
until a case that is slower by 2 and 5 % at 1.41 % is flagged; independent ones. The last columns
are the least mean that any rule can have: one with at most 5 % / cases false alarms at rho 0 or
rho 0.5 that always finds the change (Wald's bound for sequential tests, 1945).
"""

import math
import sys

import numpy as np
from families import ALPHA
from simulated_noise import autoregressive

from flashbench.arrays import FloatArray
from flashbench.stats.sequential import _Launches, launches_needed_anytime

LAUNCHES = 40
CORRELATIONS = (0.0, 0.3, 0.5, 0.8)
CHANGES = (0.02, 0.05)
NOISE = 0.01 * math.sqrt(2)
RULES = ((0.0, 0.0), (0.25, 0.5), (0.5, 0.5), (1.0, 0.5), (1.0, 0.8))  # share, largest rho


def better_explained(rows: FloatArray, largest: float) -> FloatArray:
    """(draws,): log likelihood ratio of AR(1) launches about 0 over independent ones."""
    n = rows.shape[1]
    squares = (rows**2).sum(axis=1)
    inner = (rows[:, 1:-1] ** 2).sum(axis=1)
    neighbours = (rows[:, 1:] * rows[:, :-1]).sum(axis=1)
    best = np.zeros(len(rows))
    for rho in np.linspace(0, largest, 11)[1:]:
        left = 1 + (rho**2 * inner - 2 * rho * neighbours) / squares
        best = np.maximum(best, (math.log(1 - rho**2) - n * np.log(left)) / 2)
    return best


def flagged(rows: FloatArray, share: float, largest: float, alpha: float) -> FloatArray:
    """(draws,): the launch at which a row is flagged; one more than all if never."""
    draws, launches = rows.shape
    found = np.full(draws, launches + 1.0)
    for n in range(launches_needed_anytime(alpha, round(ALPHA / alpha)), launches + 1):
        quiet = np.flatnonzero(found > launches)
        seen = rows[quiet, :n]
        evidence = _Launches(seen).log_evidence(np.zeros((len(seen), 1)))[:, 0]
        evidence -= share * better_explained(seen, largest)
        found[quiet[evidence >= -math.log(alpha)]] = n
    return found


def least_launches(change: float, rho: float, alpha: float) -> float:
    """The least mean number of launches of any rule; change: in standard deviations.

    Each launch's information, E log(likelihood with the change / likelihood of AR(1) without it),
    must add up to log(1 / alpha). Every innovation variance gives a bound; this is the highest.
    """
    bounds = []
    misfit = 1 + rho**2 + change**2 * (1 - rho) ** 2  # mean square of the innovations it leaves
    for variance in np.geomspace(misfit / 2, 2 * misfit, 201):
        each = (math.log(variance) + misfit / variance - 1) / 2
        first = 1 - rho**2
        began = (math.log(variance / first) + (1 + change**2) * first / variance - 1) / 2
        bounds.append(1 + (-math.log(alpha) - began) / each)
    return max(bounds)


def main() -> None:
    given = list(map(int, sys.argv[1:]))
    families, seed, *sizes = [*given, *(1000, 21, 1, 4)[len(given) :]]
    heads = [f"rho {rho:g}" for rho in CORRELATIONS] + [f"to {change:.0%}" for change in CHANGES]
    print(f"| cases | share | largest rho | {' | '.join(heads)} |")
    print("|---" * (len(heads) + 3) + "|")
    for cases in sizes:
        alpha = ALPHA / cases
        for share, largest in RULES:
            cells = []
            for rho in CORRELATIONS:
                rng = np.random.default_rng(seed)
                rows = autoregressive(rho)(rng, (families * cases, LAUNCHES))
                found = flagged(rows, share, largest, alpha).reshape(families, cases)
                cells.append(f"{(found <= LAUNCHES).any(axis=1).mean():.3f}")
            for change in CHANGES:
                rng = np.random.default_rng(seed + 1)
                rows = NOISE * rng.standard_normal((1000, 60)) - math.log1p(change)
                cells.append(f"{flagged(rows, share, largest, alpha).mean():.1f}")
            print(f"| {cases} | {share:g} | {largest:g} | {' | '.join(cells)} |", flush=True)
        for rho in (0.0, 0.5):
            least = [least_launches(math.log1p(c) / NOISE, rho, alpha) for c in CHANGES]
            print(f"any rule, {cases} cases, rho {rho:g}: {[f'{n:.1f}' for n in least]}")


if __name__ == "__main__":
    main()
