"""Multiple comparisons: limit the probability of any error in the whole family."""


def look_price(earlier: int) -> int:
    """How many comparisons one counts as, if the same launches, or fewer of them, may have been
    compared this many times before: 1, then 2, 6, 12...

    The k-th further look gets alpha / (k (k + 1)), so all further looks together get alpha, as the
    first one has alone.
    """
    return earlier * (earlier + 1) or 1


def require_level(alpha: float) -> None:
    """Raise ValueError for a level that no interval has: searches for one would not end."""
    if not 0 < alpha < 1:
        raise ValueError(f"alpha is {alpha:g}, not between 0 and 1")


def simultaneous_alpha(alpha: float, comparisons: int) -> float:
    """Bonferroni: intervals at this level hold all together with confidence 1 - alpha, and so does
    a p-value times the number of comparisons.

    Valid under any dependence between comparisons (cases of one launch are dependent). Raises
    ValueError unless alpha lies between 0 and 1.
    """
    require_level(alpha)
    return alpha / max(1, comparisons)
