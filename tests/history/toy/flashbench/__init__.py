from flashbench.attention import attention

__all__ = ["attention"]
