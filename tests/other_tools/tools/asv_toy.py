"""An asv suite with every kind of result: times, memory, tracked numbers, failures, skips."""

CASE = "b1-h2-q64-d32-fp32-causal-cpu"


class Suite:
    params = ([10, 100], ["list", "tuple"])
    param_names = ("n", "kind")
    repeat = 5
    number = 100
    warmup_time = 0
    rounds = 1

    def setup(self, n, kind):
        if (n, kind) == (100, "tuple"):
            raise NotImplementedError
        self.data = {"list": list, "tuple": tuple}[kind](range(n))

    def time_sum(self, n, kind):
        sum(self.data)

    def time_fails(self, n, kind):
        if n == 100:
            raise ValueError("no")


class Plain:
    def mem_list(self):
        return [0] * 256

    def track_ratio(self):
        return 1.25

    def track_negative(self):
        return -1.0

    track_ratio.unit = "times"
    track_negative.unit = "degrees"

    def time_broken(self):
        raise RuntimeError("broken")


class Attention:
    """As benchmarks/cpu.py: the numbers of a run, served to asv."""

    params = ([CASE], ["kernel", "sdpa"])
    param_names = ("case", "candidate")
    unit = "seconds"

    def track_seconds(self, case, candidate):
        return {"samples": [2.5e-5, 2.6e-5, 2.7e-5] if candidate == "sdpa" else [3e-5], "number": 1}
