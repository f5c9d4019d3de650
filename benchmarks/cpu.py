"""The commit's attention against PyTorch SDPA on the CPU; lower is better.

The versions are explicit: without them, an edit of a function here would orphan its history.
"""

from flashbench.history import names, suite

CASES = [case.id for case in suite.cases("cpu")]

timeout = 1800  # seconds; asv takes it for setup_cache as well


def setup_cache() -> None:
    """Once a commit, for everything below: kernel and SDPA have to be measured interleaved."""
    suite.measure("cpu")


class Seconds:
    """Time of a call, one sample a launch: the median of its samples."""

    version = names.VERSION
    unit = names.OURS["cpu.Seconds.track_seconds"].unit
    params = (CASES, [suite.KERNEL, suite.SDPA])
    param_names = names.PARAMETERS

    def track_seconds(self, case: str, candidate: str) -> suite.TrackedSamples | float:
        return suite.seconds(case, candidate)


class Ratio:
    """Time of the kernel as a multiple of SDPA's, one sample a launch."""

    version = names.VERSION
    unit = names.OURS["cpu.Ratio.track_ratio"].unit
    params = (CASES, [suite.KERNEL])
    param_names = names.PARAMETERS

    def track_ratio(self, case: str, candidate: str) -> suite.TrackedSamples | float:
        return suite.ratio(case, candidate)
