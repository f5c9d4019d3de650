"""flashbench: is my kernel correct, faster than PyTorch's own, and still so?"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
# What is public, with `Operation` and `Inputs` of flashbench.operations: docs/python-api.md.
__all__ = [
    "CaseVerdict",
    "FlashbenchError",
    "InvalidInputError",
    "NotMeasuredError",
    "Run",
    "Verdicts",
    "__version__",
    "attention",
    "attention_e4m3",
    "compare",
    "load",
    "measure",
    "quantize_e4m3",
]

if TYPE_CHECKING:
    from flashbench.api.comparing import compare
    from flashbench.api.measuring import measure
    from flashbench.api.run import Run, load
    from flashbench.api.verdicts import CaseVerdict, Verdicts
    from flashbench.errors import FlashbenchError, InvalidInputError, NotMeasuredError
    from flashbench.kernels.fp8 import attention_e4m3, quantize_e4m3
    from flashbench.kernels.torch_attention import attention

_PLACES = {
    "attention": "kernels.torch_attention",
    "attention_e4m3": "kernels.fp8",
    "quantize_e4m3": "kernels.fp8",
    "compare": "api.comparing",
    "measure": "api.measuring",
    "Run": "api.run",
    "load": "api.run",
    "CaseVerdict": "api.verdicts",
    "Verdicts": "api.verdicts",
    "FlashbenchError": "errors",
    "InvalidInputError": "errors",
    "NotMeasuredError": "errors",
}


def __getattr__(name: str) -> Any:
    """Import the functions, and with them torch or numpy, only on first use.

    `flashbench --help` and `flashbench compare` work without torch, and quickly.
    """
    if name not in _PLACES:
        raise AttributeError(f"module 'flashbench' has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *_PLACES]
