"""False alarms where the machine has two clocks, or the order of the builds alone makes one slower.

python experiments/clock_states.py [families] [seed] [cases]

The ratio of every case is off by the same shift to one side or the other, by the clock that the
machine has in that launch; it stays for ten launches on average. Normal noise of 1 % is added. One
row for a look after every launch up to 40 (two builds in each launch), one for two files of 20
launches each, in which SDPA and the candidate are unequally sensitive to the clock.
"""

import sys

import numpy as np
from anytime_false_alarms import ever_alarmed
from families import alarms, outcomes, rate

from flashbench.arrays import FloatArray

NOISE, STAYS = 0.01, 0.9


def two_clocks(rng: np.random.Generator, families: int, launches: int) -> FloatArray:
    """(families, 1, launches): -1 or 1, the same for all cases."""
    state = rng.choice([-1.0, 1.0], (families, 1, launches))
    for i in range(1, launches):
        stays = rng.random((families, 1)) < STAYS
        state[..., i] = np.where(stays, state[..., i - 1], -state[..., i - 1])
    return state


def every_launch(
    rng: np.random.Generator, families: int, cases: int, *, clock: float, order: float, times: float
) -> int:
    """Families with a false alarm at any look; all noise `times` as large."""
    rows = NOISE * rng.standard_normal((families, cases, 40))
    rows += order + clock * two_clocks(rng, families, 40)
    return int(ever_alarmed(times * rows).sum())


def two_files(rng: np.random.Generator, families: int, cases: int, clock: float) -> int:
    """Families with a false alarm, B against A."""
    found = 0
    for _ in range(families):
        sides = [
            NOISE * rng.standard_normal((cases, 20)) + clock * two_clocks(rng, 1, 20)[0]
            for _ in range(2)
        ]
        found += alarms(outcomes(sides)) > 0
    return found


def main() -> None:
    families, seed, cases = [*map(int, sys.argv[1:]), *(100, 41, 64)[len(sys.argv) - 1 :]]
    print(f"| what is off, {cases} cases | scale | any of 39 looks |\n|---|---|---|")
    for name, clock, order, times in (
        ("clocks, 0.5 % to either side", 0.005, 0.0, 1.0),
        ("clocks, 0.5 % to either side", 0.005, 0.0, 5.0),
        ("order, 0.3 %", 0.0, 0.003, 1.0),
    ):
        rng = np.random.default_rng(seed)
        found = every_launch(rng, families, cases, clock=clock, order=order, times=times)
        print(f"| {name} | x {times:g} | {rate(found, families)} |", flush=True)
    print("\n| clocks to which SDPA and the candidate differ by | two files |\n|---|---|")
    for clock in (0.0025, 0.005, 0.01):
        found = two_files(np.random.default_rng(seed), families, cases, clock)
        print(f"| {2 * clock:.1%} | {rate(found, families)} |", flush=True)


if __name__ == "__main__":
    main()
