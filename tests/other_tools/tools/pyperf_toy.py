"""What pyperf measures for the golden inputs; TOY_SLOWER=1 makes `sorted` slower."""

import os

import pyperf

SIZE = 400 if os.environ.get("TOY_SLOWER") else 100

runner = pyperf.Runner()
runner.metadata["description"] = "toy"
runner.bench_func("sum", sum, range(100))
runner.bench_func("sorted", sorted, list(range(SIZE, 0, -1)))
