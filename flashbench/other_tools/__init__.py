"""Result files of other tools: asv, pytest-benchmark and pyperf, read and judged as ours are.

`detect` tells by its content whose file it is; each tool's reader turns it into a `BenchmarkSet`,
which has one number a launch of each benchmark; `compare` makes comparisons of two of those (or of
one that holds SDPA's times); `judge` is what `flashbench compare` and `show` call.
"""
