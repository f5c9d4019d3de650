"""Multiple comparisons: limit the probability of any error in the whole family."""


def simultaneous_alpha(alpha: float, comparisons: int) -> float:
    """Bonferroni: intervals at this level hold all together with confidence 1 - alpha, and so does
    a p-value times the number of comparisons.

    Valid under any dependence between comparisons (cases of one launch are dependent).
    """
    return alpha / max(1, comparisons)
