"""Outcome: the words of verdicts, without numpy, for which no help text waits."""

from enum import StrEnum


class Outcome(StrEnum):
    """The outcome of a comparison. For a new word, see "Where things are" in CONTRIBUTING.md."""

    FASTER = "FASTER"
    SLOWER = "SLOWER"
    PERHAPS_FASTER = "FASTER?"  # faster, but perhaps by less than the tolerance
    PERHAPS_SLOWER = "SLOWER?"
    SAME = "SAME"
    UNDECIDED = "UNDECIDED"
    WRONG = "WRONG"
    NOT_MEASURED = "NOT MEASURED"
