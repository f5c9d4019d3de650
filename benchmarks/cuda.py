"""The commit's attention against PyTorch SDPA on the GPU, where there is one; lower is better.

The versions are explicit: without them, an edit of a function here would orphan its history.
"""

from flashbench.history import suite

CASES = [case.id for case in suite.cases("cuda")]

timeout = 1800  # seconds; asv takes it for setup_cache as well


def setup_cache() -> None:
    """Once a commit, for everything below: kernel and SDPA have to be measured interleaved."""
    suite.measure("cuda")


class Seconds:
    """Time of a call: the median over all samples of all launches."""

    version = "1"
    unit = "seconds"
    params = (CASES, [suite.KERNEL, suite.SDPA])
    param_names = ("case", "candidate")

    def track_seconds(self, case: str, candidate: str) -> suite.Samples | float:
        return suite.seconds(case, candidate)


class Ratio:
    """Time of the kernel as a multiple of SDPA's, one sample a block of a launch."""

    version = "1"
    unit = "times SDPA"
    params = (CASES,)
    param_names = ("case",)

    def track_ratio(self, case: str) -> suite.Samples | float:
        return suite.ratio(case)
