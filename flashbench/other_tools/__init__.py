"""Read result files of asv, pytest-benchmark and pyperf, and judge them by our rules.

`detect` recognises the tool by the file's content. Each tool's reader returns a `BenchmarkSet`: one
number per benchmark and launch. `compare` compares two sets, or one with the SDPA times in it.
`judge` is the entry point of `flashbench compare` and `show`.
"""
