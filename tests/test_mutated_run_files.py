"""Damaged run files of every kind: one line and exit code 2 of every command that reads one."""

import random

import mutated_run_files as mutations


def test_no_damage_is_a_traceback_or_a_hang() -> None:
    """By the experiment's way of damaging, and its commands, in this process."""
    rng = random.Random(5)
    with mutations.workplace():
        for document in mutations.documents():
            assert mutations.faults(document) == []
        for _ in range(60):
            document = mutations.mutated(rng.choice(mutations.documents()), rng)
            assert mutations.faults(document) == []
