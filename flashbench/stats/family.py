"""Many comparisons at once: what has to change so that one error in the whole family is rare."""

from collections.abc import Sequence


def simultaneous_alpha(alpha: float, comparisons: int) -> float:
    """Bonferroni: intervals at this level hold all together with confidence 1 - alpha.

    Valid however the comparisons depend on each other (cases of one launch do).
    """
    return alpha / max(1, comparisons)


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted by Holm (1979): rejecting those <= alpha keeps the family-wise error."""
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = largest
    return adjusted
