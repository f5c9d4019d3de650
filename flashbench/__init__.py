"""flashbench: is my attention kernel correct, faster than PyTorch SDPA, and still so?"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["__version__", "attention", "attention_e4m3", "quantize_e4m3"]

if TYPE_CHECKING:
    from flashbench.fp8 import attention_e4m3, quantize_e4m3
    from flashbench.torch_attention import attention


def __getattr__(name: str) -> Any:
    """Import the functions, and with them torch, only on first use.

    `flashbench --help` and `flashbench compare` work without torch, and quickly.
    """
    if name == "attention":
        from flashbench.torch_attention import attention

        return attention
    if name in ("attention_e4m3", "quantize_e4m3"):
        from flashbench import fp8

        return getattr(fp8, name)
    raise AttributeError(f"module 'flashbench' has no attribute {name!r}")
