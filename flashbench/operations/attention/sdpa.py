"""SDPA and its backends, the baselines of attention."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from flashbench.operations.operation import Baseline

if TYPE_CHECKING:
    from torch import Tensor

# torch's names of SDPA's backends, by ours.
BACKENDS = {
    "cudnn": "CUDNN_ATTENTION",
    "flash": "FLASH_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
    "math": "MATH",
}
OFFERED = {"cpu": ("flash", "math"), "cuda": ("cudnn", "flash", "efficient", "math")}
# On the CPU the default is the flash backend: measuring it twice adds nothing. On a GPU the math
# backend writes every score to memory, which at long lengths costs minutes and tens of GiB.
AUTO = {"cpu": ("math",), "cuda": ("cudnn", "flash", "efficient")}
# SDPA's errors when its only allowed backend does not support a case, on the CPU and on a GPU.
NO_BACKEND = re.compile("No viable backend|No available kernel")


def load(backend: str) -> Baseline:
    """SDPA with one backend; "": its default."""
    from torch.nn.functional import scaled_dot_product_attention

    call: Callable[..., Tensor] = scaled_dot_product_attention
    if not backend:
        return Baseline(call)
    from torch.nn.attention import SDPBackend, sdpa_kernel

    @contextmanager
    def scope() -> Iterator[None]:
        with sdpa_kernel([getattr(SDPBackend, BACKENDS[backend])]):
            yield

    return Baseline(call, scope)
