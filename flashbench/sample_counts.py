"""Samples per candidate and launch, and their split into passes: rules shared by measuring and cost
estimates."""

from collections.abc import Mapping

# Passes over the candidates for each case, metric and launch: A B | B A | A B | B A.
PASSES = 8

# Minimum seconds per sample: long compared with the clock's resolution and overhead.
MIN_SAMPLE_SECONDS = {"cpu": 2e-3, "cuda": 100e-6}

# Maximum seconds per candidate, launch and metric; slower candidates get fewer samples.
MAX_METRIC_SECONDS = {"cpu": 2.0, "cuda": 0.25}

_SLOWER = 4
_LEAST_SECONDS = 0.1


def affordable_samples(
    sample_seconds: Mapping[str, float], wanted: int, most_seconds: float
) -> dict[str, int]:
    """Samples of each candidate: `wanted`, or as many as fit the time limit, and at least two.

    sample_seconds: of one sample, by candidate. The limit is `most_seconds`, or `_SLOWER` times
    what the fastest candidate needs if that is less: SDPA can be far slower on a busy machine.
    """
    if not sample_seconds:
        return {}
    fastest = wanted * min(sample_seconds.values())
    seconds = min(most_seconds, max(_LEAST_SECONDS, _SLOWER * fastest))
    return {name: max(2, min(wanted, int(seconds / each))) for name, each in sample_seconds.items()}


def split_samples(samples: int) -> list[int]:
    """Samples per pass, summing to `samples`; empty passes are left out.

    With two samples or more the number of passes is even, so every A/B has its B/A.
    """
    number = min(PASSES, samples)
    number -= number % 2 if number > 1 else 0
    return [samples // number + (index < samples % number) for index in range(number)]
