"""The statistical core: pure functions of numbers, no I/O, no torch, no scipy at run time.

Methods, sources and measured error rates are in docs/statistics.md.
"""
