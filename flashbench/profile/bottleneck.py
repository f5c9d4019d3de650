"""Find a call's bottleneck from its time and floors, the counters of its longest kernel, or a
CPU's. "unknown" is a possible answer.
"""

from collections.abc import Sequence

from flashbench.profile import cpu_rules, gpu_rules
from flashbench.profile.floors import Floor, floors
from flashbench.profile.model import CaseProfile, Subject
from flashbench.profile.rule import BUSY, UNKNOWN, Bottleneck

LAUNCH = 2.0  # up to this many times an empty call, the launch is the bottleneck


def find(profile: CaseProfile, subject: Subject) -> Bottleneck:
    """The bottleneck of one subject of a profile."""
    known = floors(profile.case, profile.ceilings, profile.metric) if profile.ceilings else []
    seconds = subject.seconds(profile.metric)
    largest = by_floors(seconds, known)
    if profile.case.device == "cpu":
        return cpu_rules.of_call(subject.counters, profile.ceilings, largest)
    kernel = subject.longest
    if found := _launch(seconds, known):
        return found
    return gpu_rules.of_kernel(kernel.counters) if kernel and kernel.counters else largest


def by_floors(seconds: float | None, known: Sequence[Floor]) -> Bottleneck:
    """The bottleneck by timing alone: the floor that takes most of the time."""
    if not seconds:
        return Bottleneck(UNKNOWN, ("no time was measured",))
    if not known:
        return Bottleneck(UNKNOWN, ("no ceiling is known",))
    top = known[0]
    evidence = (f"{seconds * 1e6:.4g} us", f"{top.name} takes {top.seconds * 1e6:.4g} us at least")
    if 100 * top.seconds / seconds >= BUSY:
        steps = ("this much work takes this long here: only less of it is faster",)
        return Bottleneck(top.name, evidence, steps)
    return Bottleneck(UNKNOWN, evidence)


def _launch(seconds: float | None, known: Sequence[Floor]) -> Bottleneck | None:
    floor = next((one for one in known if one.name == "launch"), None)
    if floor is None or not seconds or seconds > LAUNCH * floor.seconds:
        return None
    return Bottleneck(
        "launch",
        (
            f"{seconds * 1e6:.3g} us a call",
            f"{floor.seconds * 1e6:.3g} us for one that does nothing",
        ),
        (
            "batch the work of several calls",
            "replay a CUDA graph",
            "fuse it with its neighbours: the kernel itself has nothing left to give",
        ),
    )
