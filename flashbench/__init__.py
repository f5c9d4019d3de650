"""flashbench: is this attention kernel right, faster than PyTorch SDPA, and still so?"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["__version__", "attention"]

if TYPE_CHECKING:
    from flashbench.torch_attention import attention


def __getattr__(name: str) -> Any:
    """Import `attention`, and with it torch, only when it is asked for.

    `flashbench --help` and `flashbench compare` work without torch, and quickly.
    """
    if name == "attention":
        from flashbench.torch_attention import attention

        return attention
    raise AttributeError(f"module 'flashbench' has no attribute {name!r}")
