"""Names of the GPU kernels that one call runs. Not timed: the profiler stays in the process."""

from collections.abc import Sequence

import torch

from flashbench.candidates import Loaded
from flashbench.case import Case
from flashbench.measure.measurement import Tell
from flashbench.measure.problem import inputs_of


def kernel_names(
    case: Case, candidates: Sequence[Loaded], seed: int, tell: Tell
) -> dict[str, list[str]]:
    """Kernels (copies and fills too) of one warm call of each candidate, in their order."""
    named: dict[str, list[str]] = {}
    with torch.no_grad():
        tensors, keywords = inputs_of(case, seed)
        for loaded in candidates:
            tell(loaded.name, "kernel names")
            with loaded.scope():
                loaded.call(*tensors, **keywords)
                torch.cuda.synchronize()
                with torch.profiler.profile(
                    activities=[torch.profiler.ProfilerActivity.CUDA]
                ) as profiler:
                    loaded.call(*tensors, **keywords)
                    torch.cuda.synchronize()
            events = [e for e in profiler.events() or [] if e.device_type.name == "CUDA"]
            events.sort(key=lambda event: event.time_range.start)
            named[loaded.name] = [event.name for event in events]
    return named
