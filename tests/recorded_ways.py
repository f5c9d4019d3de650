"""Attention recorded and differentiated, by the short way of plain tensors or through Python."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from flashbench import attention
from flashbench.kernels import gradients, kernel_call, torch_attention

HAS_EXCHANGE = hasattr(Tensor, "__dlpack_c_exchange_api__")


def recorded(*inputs: Tensor) -> list[Tensor]:
    """The same tensors, requiring gradients."""
    return [x.detach().requires_grad_() for x in inputs]


def both_passes(*inputs: Tensor, **options: Any) -> list[Tensor]:
    """The output and the gradients of q, k and v; the last input is dout."""
    *qkv, dout = inputs
    qkv = recorded(*qkv)
    out = attention(*qkv, **{"is_causal": True, "enable_gqa": True} | options)  # type: ignore[arg-type]
    return [out.detach(), *torch.autograd.grad(out, qkv, dout)]


def assert_same(found: Any, expected: Any) -> None:
    assert all(torch.equal(x, y) for x, y in zip(found, expected, strict=True))


@contextmanager
def only_short() -> Iterator[None]:
    """Fail where the way through Python is taken, if this torch has a short one."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a plain call went through Python")

    with pytest.MonkeyPatch.context() as patch:
        if HAS_EXCHANGE:
            patch.setattr(kernel_call, "forward", refuse)
            patch.setattr(kernel_call, "backward", refuse)
        yield


@contextmanager
def only_python() -> Iterator[None]:
    """Never take the short way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch_attention, "_plain_attention", lambda *_: None)
        patch.setattr(gradients, "_plain_gradients", lambda *_: None)
        yield
