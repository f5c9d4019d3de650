"""How many samples a candidate gets in a launch, and in how many turns: what is measured by it, and
what an estimate counts with."""

from collections.abc import Mapping

# Passes over the candidates of a case, a metric and a launch: A B | B A | A B | B A.
PASSES = 8

# Seconds a sample lasts at least: long against the clock's resolution and its own cost.
MIN_SAMPLE_SECONDS = {"cpu": 2e-3, "cuda": 100e-6}

# A candidate gets fewer samples a launch and metric when all would take longer than this.
MAX_METRIC_SECONDS = {"cpu": 2.0, "cuda": 0.25}

_SLOWER = 4
_LEAST_SECONDS = 0.1


def affordable_samples(
    sample_seconds: Mapping[str, float], wanted: int, most_seconds: float
) -> dict[str, int]:
    """`wanted` samples of each, or as many as there is time for; two at the least.

    sample_seconds: of one sample of each. There is time for what the clock allows (most_seconds),
    and for whoever is far slower than the fastest, as SDPA can be on a busy machine, for `_SLOWER`
    times what that one takes.
    """
    if not sample_seconds:
        return {}
    fastest = wanted * min(sample_seconds.values())
    seconds = min(most_seconds, max(_LEAST_SECONDS, _SLOWER * fastest))
    return {name: max(2, min(wanted, int(seconds / each))) for name, each in sample_seconds.items()}


def split_samples(samples: int, number: int = PASSES) -> list[int]:
    """How many samples each pass takes; sums to `samples`, passes that get none are left out.

    An even number of passes is kept as long as there are two samples, so that every A/B has its
    B/A.
    """
    number = min(number, samples)
    number -= number % 2 if number > 1 else 0
    return [samples // number + (index < samples % number) for index in range(number)]
