"""Many comparisons at once: what has to change so that one error in the whole family is rare."""


def simultaneous_alpha(alpha: float, comparisons: int) -> float:
    """Bonferroni: intervals at this level hold all together with confidence 1 - alpha, and so does
    a p-value times the number of comparisons.

    Valid however the comparisons depend on each other (cases of one launch do).
    """
    return alpha / max(1, comparisons)
