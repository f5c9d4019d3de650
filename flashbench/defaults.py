"""Defaults that commands, Python functions and plans share; each stands here once."""

LAUNCHES = 10
LAUNCHES_UNTIL_DECIDED = 40  # at most, of two revisions,
_LAUNCHES_OF_BUDGET = 200  # or with a budget, which then decides how many it pays for
SAMPLES = 40  # per launch, metric and candidate
SEED = 0
TIMEOUT_SECONDS = 60.0  # of one candidate's check, or one block of its samples
BUILD_TIMEOUT_SECONDS = 1800.0

TOLERANCE = 0.01  # the largest change that does not matter
CONFIDENCE = 0.95  # joint, of all intervals in a table
ALPHA = round(1 - CONFIDENCE, 12)


def most_launches(*, budget: bool) -> int:
    """The most launches of two revisions, with or without a budget."""
    return _LAUNCHES_OF_BUDGET if budget else LAUNCHES_UNTIL_DECIDED
