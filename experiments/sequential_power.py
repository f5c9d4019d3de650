"""After how many launches does each method, with a look after every launch, find a change?

python experiments/sequential_power.py [trials] [seed]    (one of 64 cases changed, 1 % tolerance)
"""

import math
import sys
from collections.abc import Callable, Iterator

import numpy as np
from asymptotic import normal_mixture
from families import ALPHA, TOLERANCE, outcomes, rate, trials_argument
from simulated_noise import Noise, heavy_tailed, normal, quantised, skewed

from flashbench.arrays import FloatArray
from flashbench.outcome import Outcome
from flashbench.stats import sequential
from flashbench.stats.sequential import IntervalTerms, anytime_shifts, exceeds
from flashbench.stats.shift import Shift, pseudomedian

CASES = 64
MOST = 60
FIXED = 20  # the fixed plan that early stopping is compared with
Method = Callable[[FloatArray, float], Shift]


def anytime_shift(launches: FloatArray, alpha: float) -> Shift:
    """The interval of one of the cases."""
    return sequential.anytime_shift(launches, IntervalTerms(alpha, CASES))


METHODS: tuple[Method, ...] = (anytime_shift, normal_mixture)


def series(
    noise: Noise, change: float, trials: int, seed: int, deviation: float = 0.01
) -> Iterator[FloatArray]:
    """Log-ratios of MOST launches of a build that is slower by `change`; both builds' launches have
    the deviation, independently."""
    rng = np.random.default_rng(seed)
    for _ in range(trials):
        old, new = deviation * noise(rng, (2, MOST))
        yield old - new - math.log1p(change)


def found_at(method: Method, launches: FloatArray, limit: float = 0.0) -> int:
    """The launch at which the case becomes SLOWER?, or SLOWER if limit is the tolerance; MOST + 1
    if it never does."""
    for n in range(2, MOST + 1):
        shift = method(launches[:n], ALPHA / CASES)
        if shift.high < -limit and shift.value < -math.log1p(TOLERANCE):
            return n
    return MOST + 1


def found_in(rows: FloatArray) -> list[int]:
    """`found_at` by anytime_shift of many series at once. rows: (series, MOST)."""
    found = np.full(len(rows), MOST + 1)
    for n in range(2, MOST + 1):
        left = np.flatnonzero(found > MOST)
        shifts = (
            anytime_shifts(rows[left, :n], IntervalTerms(ALPHA / CASES, CASES)) if len(left) else []
        )
        slower = [one.high < 0 and one.value < -math.log1p(TOLERANCE) for one in shifts]
        found[left[np.array(slower, dtype=bool)]] = n
    return found.tolist()


def found_by_the_gate(change: float, trials: int, seed: int, until: int = 40) -> list[int]:
    """The same for the whole gate over all 64 cases, including its handling of order and modes."""
    rng = np.random.default_rng(seed)
    builds = 0.01 * rng.standard_normal((trials, 2, CASES, until))
    speedups = builds[:, 0] - builds[:, 1]
    speedups[:, 0] -= math.log1p(change)
    found = np.full(trials, until + 1)
    for n in range(5, until + 1):
        # A case is judged in full once its interval alone comes near.
        near = exceeds(-speedups[:, 0, :n], 0.0, IntervalTerms(4 * ALPHA / CASES, CASES))
        for trial in np.flatnonzero(near & (found > until)):
            outcome = next(outcomes([speedups[trial, :, :n]], anytime=True))
            if outcome in (Outcome.SLOWER, Outcome.PERHAPS_SLOWER):
                found[trial] = n
    return found.tolist()


def stopped(change: float, cases: int, seed: int, trials: int = 1000) -> tuple[float, float]:
    """Launches until a change at 1.41 % is SLOWER?, and the change that the estimate then says, as
    means; one case is judged, at its level among `cases`."""
    rows = 0.01 * math.sqrt(2) * np.random.default_rng(seed).standard_normal((trials, MOST))
    rows += math.log1p(change)
    terms = IntervalTerms(ALPHA / cases, cases)
    said, at = np.full(trials, np.nan), np.full(trials, MOST + 1)
    for n in range(2, MOST + 1):
        left = np.flatnonzero(np.isnan(said))
        value = pseudomedian(rows[left, :n])
        stop = exceeds(rows[left, :n], 0.0, terms) & (value > math.log1p(TOLERANCE))
        said[left[stop]], at[left[stop]] = value[stop], n
    return float(at.mean()), math.expm1(float(np.nanmean(said)))


def _row(found: list[int]) -> str:
    launches, trials = np.array(found), len(found)
    saved = 1 - launches.mean() / FIXED
    by = [rate(int(np.count_nonzero(launches <= n)), trials) for n in (FIXED, 28)]
    return f"{launches.mean():.2f} | {saved:.0%} | {' | '.join(by)}"


def main() -> None:
    trials = trials_argument(2000)
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    print(f"{trials} trials, the gate a fifth of them; seed {seed}; sd 1 % in each build")
    print("| noise | slower by | method | mean launches | saved of 20 | by 20 | by 28 |")
    print("|---|---|---|---|---|---|---|")
    for change in (0.02, 0.05, 0.10):
        found = found_by_the_gate(change, max(1, trials // 5), seed)
        print(f"| normal | {change:.0%} | the gate, 64 cases | {_row(found)} |", flush=True)
    for noise in (normal, heavy_tailed, skewed, quantised):
        for change in (0.02, 0.05, 0.10):
            for method in METHODS if noise is normal else METHODS[:1]:
                found = [found_at(method, x) for x in series(noise, change, trials, seed)]
                print(f"| {noise.__name__} | {change:.0%} | {method.__name__} | ", end="")
                print(f"{_row(found)} |", flush=True)
    print("\n| slower by | cases | mean launches | the estimate at the stop |\n|---|---|---|---|")
    for change in (0.02, 0.05):
        for cases in (1, CASES):
            launches, said = stopped(change, cases, seed)
            print(f"| {change:.0%} | {cases} | {launches:.1f} | {said:.2%} |", flush=True)


if __name__ == "__main__":
    main()
