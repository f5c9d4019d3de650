"""The statistical core: pure functions of numbers, no I/O, no torch; scipy.special when needed.

Methods and sources are in docs/statistics.md, measured error rates in docs/lab/statistics.md.
"""
