"""Small families of correlated launches: false alarms and launches by what is allowed for.

python experiments/correlated_launches.py [families] [seed] [cases ...]

A family is flagged if the evidence against "no change" is ever enough for any case, after 4 to 40
launches; the rest of the rule (tolerance, modes) can only make that rarer. All families are judged
at once, which takes a copy of the whitening with another correlation for each. Launches: those
until one case of the family, slower by 2 and 5 % at 1.41 %, is flagged; all independent.
"""

import math
import sys
from collections.abc import Callable

import numpy as np
from families import ALPHA
from simulated_noise import FloatArray, autoregressive

from flashbench.stats import order
from flashbench.stats.evidence import _PRIOR, log_symmetric
from flashbench.stats.sequential import T_SHARE, _tight, launches_needed_anytime

LAUNCHES = 40
CORRELATIONS = (0.0, 0.3, 0.5, 0.8)
Rule = Callable[[FloatArray], FloatArray]  # (families, cases, launches) to (families,)


def tested(rows: FloatArray) -> FloatArray:
    """The rule before: the estimate from the sixth launch on, if shuffled launches rarely have it
    (p <= 0.05)."""
    families, cases, n = rows.shape
    if n < 6:
        return np.zeros(families)
    unit = _unit(rows)
    products = np.einsum("fmi,fmj->fij", unit, unit) / cases
    observed = np.trace(products, offset=1, axis1=1, axis2=2)
    orders, larger = order._shuffles(n), np.zeros(families)
    for some in np.array_split(orders, 10):
        shuffled = products[:, some[:, 1:], some[:, :-1]].sum(axis=-1)
        larger += (shuffled >= observed[:, None]).sum(axis=1)
    rho = np.clip(order._unbiased(observed, 1 / n), 0, order.MAX_CORRELATION)
    return np.where((1 + larger) / (1 + len(orders)) > 0.05, 0.0, rho)


def suspected(doubt: float, little: float) -> Rule:
    """The rule of `suspected_correlation` with these constants."""

    def rule(rows: FloatArray) -> FloatArray:
        families, cases, n = rows.shape
        if n < 4:
            return np.zeros(families)
        unit, chance = _unit(rows), 1 / (n - 1)
        observed = (unit[..., 1:] * unit[..., :-1]).sum(axis=-1).mean(axis=-1)
        square = (np.einsum("fmi,fni->fmn", unit, unit) ** 2).mean(axis=(1, 2))
        shared = np.maximum((square - chance) / (1 - chance), 1 / cases)
        rho = order._unbiased(observed, 1 / n) + doubt * np.sqrt(shared / n)
        rho = np.clip(rho, 0, order.MAX_CORRELATION)
        return np.where(rho < little, 0.0, rho)

    return rule


def _unit(rows: FloatArray) -> FloatArray:
    centred = rows - rows.mean(axis=-1, keepdims=True)
    unit: FloatArray = centred / np.sqrt((centred**2).sum(axis=-1, keepdims=True))
    return unit


RULES: dict[str, Rule] = {
    "tested at 5 %": tested,
    "estimated": suspected(0, 0),
    "+ 0.5 errors": suspected(0.5, 0),
    "+ 0.5 errors, from 0.1 on": suspected(order._DOUBT, order._LITTLE),
    "+ 1 error": suspected(1, 0),
}


def log_evidence(rows: FloatArray, rho: FloatArray) -> FloatArray:
    """(families, cases): `_Launches.log_evidence` against 0. rho: (families,)."""
    n, lag = rows.shape[-1], rho[:, None, None]
    first = np.sqrt(1 - lag**2)
    white = np.concatenate((first * rows[..., :1], rows[..., 1:] - lag * rows[..., :-1]), axis=2)
    weights = np.concatenate((first, np.repeat(1 - lag, n - 1, axis=2)), axis=2)
    total = (weights**2).sum(axis=2)
    mean = (white * weights).sum(axis=2) / total
    error = np.sqrt(((white - mean[..., None] * weights) ** 2).sum(axis=2) / total)
    symmetric = log_symmetric(white)
    t = _log_t_mixture(np.abs(mean) / error, n, total)
    mixed = np.logaddexp(math.log(T_SHARE) + t, math.log1p(-T_SHARE) + symmetric)
    tight = _tight(rows.reshape(-1, n)).reshape(mixed.shape)
    return np.where(tight, np.minimum(mixed, symmetric), mixed)


def _log_t_mixture(t: FloatArray, n: int, total: FloatArray) -> FloatArray:
    """`log_t_mixture` with a total for each family."""
    share = 1 / (1 + t**2)
    terms = []
    for weight, scale in _PRIOR:
        spread = 1 + total * scale**2
        rest = share + (1 - share) / spread
        moment = (1 + n * (1 - rest) / rest) / spread
        terms.append(np.log(weight * moment) - (np.log(spread) + n * np.log(rest)) / 2)
    evidence: FloatArray = np.logaddexp.reduce(terms, axis=0)
    return evidence


def flagged(rows: FloatArray, rule: Rule) -> FloatArray:
    """(families, cases): the launch at which a case is flagged; one more than all if never."""
    families, cases, launches = rows.shape
    found = np.full((families, cases), launches + 1)
    target = -math.log(ALPHA / cases)
    for n in range(launches_needed_anytime(ALPHA / cases), launches + 1):
        seen = rows[:, :, :n]
        # Allowing for correlation takes evidence away, nearly always.
        near = np.flatnonzero((log_evidence(seen, np.zeros(families)) >= target).any(axis=1))
        if len(near):
            enough = log_evidence(seen[near], rule(seen[near])) >= target
            found[near] = np.where(enough, np.minimum(found[near], n), found[near])
    return found


def main() -> None:
    given = list(map(int, sys.argv[1:]))
    families, seed, *sizes = [*given, *(1000, 21, 1, 4, 8)[len(given) :]]
    heads = [f"rho {rho:g}" for rho in CORRELATIONS]
    print("| cases | allowed for | " + " | ".join(heads) + " | launches to 2 % | to 5 % |")
    print("|---" * (len(heads) + 4) + "|")
    for cases in sizes:
        for name, rule in RULES.items():
            cells = []
            for rho in CORRELATIONS:
                noise = autoregressive(rho)(
                    np.random.default_rng(seed), (families, cases, LAUNCHES)
                )
                alarms = (flagged(noise, rule) <= LAUNCHES).any(axis=1)
                cells.append(f"{alarms.mean():.3f}")
            for change in (0.02, 0.05):
                rng = np.random.default_rng(7)
                rows = 0.01 * math.sqrt(2) * rng.standard_normal((300, cases, 60))
                rows[:, 0] -= math.log1p(change)
                cells.append(f"{flagged(rows, rule)[:, 0].mean():.1f}")
            print(f"| {cases} | {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
