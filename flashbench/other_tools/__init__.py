"""Result files of other tools: asv, pytest-benchmark and pyperf, read and judged as ours are.

`detect` tells by its content whose file it is; a reader a tool turns it into a `SeriesSet`, named
series of one number a launch; `compare` makes comparisons of two of those (or of one that holds
SDPA's times); `judge` is what `flashbench compare` and `show` call.
"""
