"""The CUDA kernels on strided, unaligned, reversed and far-apart memory: always the same bits."""

import math
import threading
from collections.abc import Sequence

import pytest
import torch
from gpu.test_cuda_attention import KERNEL_DIMS
from masks import IDS, MASKS, for_extension, for_ours
from torch import Tensor

if not torch.cuda.is_available():
    pytest.skip("torch sees no CUDA device", allow_module_level=True)

from flashbench.kernels import torch_attention
from flashbench.operations.attention.operation import Causal

if not torch_attention._C.cuda_dtypes():
    pytest.skip("flashbench._C was built without CUDA kernels", allow_module_level=True)

attention = torch_attention.attention

BY_MASK = pytest.mark.parametrize("causal", MASKS, ids=IDS)
# Few, some and many tiles, and long sequences: each has kernels of its own (csrc/cuda/families.h).
LONG = 25
HEADS = pytest.mark.parametrize("heads", [3, 20, 300, LONG], ids=["few", "some", "many", "long"])
# With LONG heads every length is longer by this.
LONGER = 1100


def randn(*shape: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(shape, device="cuda", dtype=dtype)


def qkv(
    batch: int, heads: int, q_len: int, k_len: int, head_dim: int, dtype: torch.dtype
) -> list[Tensor]:
    longer = LONGER if heads == LONG else 0
    return [
        randn(batch, heads, length + longer, head_dim, dtype=dtype)
        for length in (q_len, k_len, k_len)
    ]


def assert_same_bits(left: Tensor, right: Tensor) -> None:
    """Equal element by element, NaN and the sign of zero included."""
    left, right = left.contiguous(), right.contiguous()
    assert torch.equal(left.view(torch.int16), right.view(torch.int16))


def call(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    causal: Causal,
    addresses: Sequence[int] | None = None,
    strides: Sequence[Sequence[int]] | None = None,
) -> None:
    """The extension itself: any output tensor, and strides that torch has no view for."""
    tensors = (q, k, v, out)
    torch_attention._C.cuda_attention(
        *(addresses or [x.data_ptr() for x in tensors]),
        0,
        (*q.shape[:2], k.shape[1], q.shape[2], k.shape[2], q.shape[3]),
        *(strides or [x.stride() for x in tensors]),
        1 / math.sqrt(q.shape[3]),
        *for_extension(causal, q.shape[2], k.shape[2]),
        {torch.float16: 1, torch.bfloat16: 2}[q.dtype],
        torch.cuda.current_stream().cuda_stream,
    )


def _transposed(x: Tensor) -> Tensor:
    return x.transpose(1, 2).contiguous().transpose(1, 2)


def _dim_stride(x: Tensor) -> Tensor:
    return torch.stack([x, torch.full_like(x, math.nan)], dim=-1)[..., 0]


def _dim_outermost(x: Tensor) -> Tensor:
    return x.transpose(-1, -2).contiguous().transpose(-1, -2)


def _padded(x: Tensor, padding: int) -> Tensor:
    wide = torch.full((*x.shape[:3], x.shape[3] + padding), math.nan, dtype=x.dtype, device="cuda")
    wide[..., : x.shape[3]] = x
    return wide[..., : x.shape[3]]


def _offset(x: Tensor, elements: int) -> Tensor:
    flat = torch.full((x.numel() + elements,), math.nan, dtype=x.dtype, device="cuda")
    flat[elements:] = x.flatten()
    return flat[elements:].view(x.shape)


def _nan_around(x: Tensor) -> Tensor:
    shape = (*x.shape[:2], x.shape[2] + 70, x.shape[3] + 72)
    wide = torch.full(shape, math.nan, dtype=x.dtype, device="cuda")
    view = wide[:, :, : x.shape[2], : x.shape[3]]
    view.copy_(x)
    return view


LAYOUTS = {
    "transposed": _transposed,
    "dim-stride-2": _dim_stride,
    "dim-outermost": _dim_outermost,
    "rows-padded-by-8": lambda x: _padded(x, 8),
    "rows-padded-by-1": lambda x: _padded(x, 1),
    "offset-1": lambda x: _offset(x, 1),
    "offset-4": lambda x: _offset(x, 4),
    "nan-around": _nan_around,
}


@BY_MASK
@HEADS
@pytest.mark.parametrize("head_dim", KERNEL_DIMS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(
    layout: str, head_dim: int, heads: int, causal: Causal, dtype: torch.dtype
) -> None:
    """Strided and unaligned views, one at a time and all at once, give the contiguous bits."""
    q, k, v = qkv(1, heads, 150, 139, head_dim, dtype)
    expected = attention(q, k, v, **for_ours(causal))
    view = LAYOUTS[layout]
    assert_same_bits(attention(view(q), k, v, **for_ours(causal)), expected)
    assert_same_bits(attention(q, view(k), v, **for_ours(causal)), expected)
    assert_same_bits(attention(q, k, view(v), **for_ours(causal)), expected)
    assert_same_bits(attention(view(q), view(k), view(v), **for_ours(causal)), expected)
    out = view(torch.full_like(q, math.nan))
    call(q, k, v, out, causal)
    assert_same_bits(out, expected)


@BY_MASK
@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_a_cluster(
    layout: str, head_dim: int, causal: Causal, dtype: torch.dtype
) -> None:
    """The same where the keys of a tile are dealt out to a cluster: few heads, many keys."""
    view = LAYOUTS[layout]
    for heads in (3, 20):
        q, k, v = qkv(1, heads, 210, 400, head_dim, dtype)
        expected = attention(q, k, v, **for_ours(causal))
        out = view(torch.full_like(q, math.nan))
        call(view(q), view(k), view(v), out, causal)
        assert_same_bits(out, expected)


@BY_MASK
@HEADS
def test_zero_strides(heads: int, causal: Causal, dtype: torch.dtype) -> None:
    """Expanded views, in any dimension, mean what their copies mean."""
    q_len, k_len = (length + (LONGER if heads == LONG else 0) for length in (150, 139))
    q = randn(1, 1, q_len, 64, dtype=dtype).expand(2, heads, q_len, 64)
    k = randn(2, 1, 1, 64, dtype=dtype).expand(2, heads, k_len, 64)
    v = randn(1, heads, k_len, 1, dtype=dtype).expand(2, heads, k_len, 64)
    expected = attention(q.contiguous(), k.contiguous(), v.contiguous(), **for_ours(causal))
    assert_same_bits(attention(q, k, v, **for_ours(causal)), expected)


@BY_MASK
@pytest.mark.parametrize("q_len", [1, 100, 700, 1500])
@pytest.mark.parametrize("head_dim", [32, 64, 128, 256])
def test_keys_of_one_problem_for_a_batch(
    head_dim: int, q_len: int, causal: Causal, dtype: torch.dtype
) -> None:
    """K and V expanded over a batch, which TMA reads in place, mean what their copies mean."""
    q = randn(3, 8, q_len, head_dim, dtype=dtype)
    for k_len in (200, 1500, 8200):
        k, v = (randn(1, 4, k_len, head_dim, dtype=dtype).expand(3, -1, -1, -1) for _ in "kv")
        expected = attention(q, k.contiguous(), v.contiguous(), enable_gqa=True, **for_ours(causal))
        assert_same_bits(attention(q, k, v, enable_gqa=True, **for_ours(causal)), expected)


@BY_MASK
@HEADS
@pytest.mark.parametrize("negative_dim", [False, True], ids=["rows", "rows-and-dims"])
def test_negative_strides(
    negative_dim: bool, heads: int, causal: Causal, dtype: torch.dtype
) -> None:
    """Tensors read and written backwards give the bits of their flipped copies."""
    flipped = [1, 2, 3] if negative_dim else [1, 2]
    q, k, v = qkv(2, heads, 150, 139, 64, dtype)
    out = torch.full_like(q, math.nan)
    tensors = (q, k, v, out)
    last = [sum((x.shape[d] - 1) * x.stride(d) for d in flipped) for x in tensors]
    call(
        *tensors,
        causal,
        addresses=[x.data_ptr() + 2 * offset for x, offset in zip(tensors, last, strict=True)],
        strides=[[-s if d in flipped else s for d, s in enumerate(x.stride())] for x in tensors],
    )
    expected = attention(q.flip(flipped), k.flip(flipped), v.flip(flipped), **for_ours(causal))
    assert_same_bits(out.flip(flipped), expected)


@pytest.mark.parametrize("far", ["batch", "head", "seq", "dim"])
@pytest.mark.parametrize("shape", [(2, 2, 130, 32), (2, 2, 300, 128)], ids=["few", "many"])
def test_offsets_over_two_to_the_31(
    shape: tuple[int, int, int, int], far: str, dtype: torch.dtype
) -> None:
    """Elements more than 2^31 from the start are found, whichever stride leads there."""
    axis = ("batch", "head", "seq", "dim").index(far)
    step = -(-(2**31 + 8) // (shape[axis] - 1) // 8) * 8
    inner = torch.empty(shape).stride()
    if far == "dim":
        strides = [shape[2] * 4, shape[2] * 2, 1, step]
    else:
        strides = [step if d == axis else s for d, s in enumerate(inner)]
    span = sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1
    if torch.cuda.mem_get_info()[0] < 5 * 2 * span:
        pytest.skip("needs 25 GB of free GPU memory")
    q, k, v = qkv(*shape[:3], shape[2], shape[3], dtype)
    expected = attention(q, k, v, is_causal=True)
    views = []
    for x in (q, k, v, torch.zeros_like(q)):
        buffer = torch.empty(span, dtype=dtype, device="cuda")
        views.append(buffer.as_strided(shape, strides).copy_(x))
    call(*views, True)
    assert_same_bits(views[3], expected)
    del views, buffer
    torch.cuda.empty_cache()


@BY_MASK
@HEADS
@pytest.mark.parametrize("head_dim", KERNEL_DIMS)
def test_writes_its_output_and_nothing_else(
    head_dim: int, heads: int, causal: Causal, dtype: torch.dtype
) -> None:
    """Every element of the output is written, nothing beside it is, and the inputs stay."""
    q, k, v = qkv(1, heads, 141, 203, head_dim, dtype)
    before = [x.clone() for x in (q, k, v)]
    shape = (1, heads, q.shape[2] + 60, head_dim + 16)
    whole = torch.full(shape, 7.0, dtype=dtype, device="cuda")
    out = whole[:, :, 30:-30, 8:-8]
    out.fill_(math.nan)
    call(q, k, v, out, causal)
    assert_same_bits(out, attention(q, k, v, **for_ours(causal)))
    assert out.isfinite().all()
    out.fill_(7.0)
    assert (whole == 7.0).all()
    for x, y in zip((q, k, v), before, strict=True):
        assert_same_bits(x, y)


def test_a_thread_without_a_context() -> None:
    """A new thread, as autograd's is, has no current context until the runtime gives it one."""
    q, k, v = qkv(1, 300, 200, 200, 64, torch.bfloat16)
    expected, out = torch.empty_like(q), torch.full_like(q, math.nan)
    call(q, k, v, expected, False)
    torch.cuda.synchronize()
    thread = threading.Thread(target=call, args=(q, k, v, out, False))
    thread.start()
    thread.join()
    torch.cuda.synchronize()
    assert_same_bits(out, expected)
