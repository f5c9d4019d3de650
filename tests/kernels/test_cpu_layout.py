"""CPU kernels on views: strides say where numbers are, never what comes out."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels.cpu_truth import ours, random_inputs
from masks import MASKS
from torch import Tensor

from flashbench.extension import load
from flashbench.operations.attention.operation import Causal

_C = load()


def _as_view(x: Tensor, order: list[int], padding: list[int], steps: list[int]) -> Tensor:
    """The numbers of x in storage of another order of dimensions, with gaps filled with NaN."""
    sizes = [x.shape[i] * steps[i] + padding[i] for i in order]
    storage = torch.full(sizes, torch.nan, dtype=x.dtype)
    view = storage.permute([order.index(i) for i in range(4)])
    for dim in range(4):
        view = view.narrow(dim, padding[dim], x.shape[dim] * steps[dim])
        view = view[(slice(None),) * dim + (slice(None, None, steps[dim]),)]
    return view.copy_(x)


_layout = st.tuples(
    st.permutations(range(4)),
    st.lists(st.integers(0, 3), min_size=4, max_size=4),
    st.lists(st.sampled_from([1, 1, 1, 2]), min_size=4, max_size=4),
)


@settings(max_examples=80)
@given(
    isa=st.sampled_from(_C.usable_isas()),
    dtype=st.sampled_from([torch.float32, torch.float16, torch.bfloat16]),
    heads=st.sampled_from([(1, 1), (4, 2), (3, 3)]),
    lengths=st.tuples(st.integers(1, 150), st.integers(1, 200)),
    head_dim=st.sampled_from(range(32, 130, 8)),
    causal=st.sampled_from(MASKS),
    layouts=st.tuples(_layout, _layout, _layout),
)
def test_strides_change_no_bit(
    isa: str,
    dtype: torch.dtype,
    heads: tuple[int, int],
    lengths: tuple[int, int],
    head_dim: int,
    causal: Causal,
    layouts: tuple[tuple[list[int], list[int], list[int]], ...],
) -> None:
    """Permuted, padded, stepped and unaligned inputs give the bits that contiguous ones give."""
    before = _C.selected_isa()
    _C.select_isa(isa)
    try:
        inputs = random_inputs((2, *heads, *lengths, head_dim), dtype)
        q, k, v = [_as_view(x, *layout) for x, layout in zip(inputs, layouts, strict=True)]
        assert torch.equal(ours(q, k, v, causal), ours(*inputs, causal))
    finally:
        _C.select_isa(before)


def test_expanded_inputs(dtype: torch.dtype, causal: bool, isa: str) -> None:
    """Strides of zero read the same numbers again."""
    q, k, v = random_inputs((2, 4, 4, 33, 70, 64), dtype)
    k, v = k[:1, :1].expand(2, 4, 70, 64), v[:, :, :1].expand(2, 4, 70, 64)
    q = q[..., :1].expand(2, 4, 33, 64)
    expected = ours(q.contiguous(), k.contiguous(), v.contiguous(), causal)
    assert torch.equal(ours(q, k, v, causal), expected)


def test_negative_strides(isa: str) -> None:
    """The interface takes strides that go backwards, which torch itself does not make."""
    q, k, v = random_inputs((1, 2, 2, 40, 60, 64), torch.float32)
    out = torch.empty_like(q)
    back = k.flip(2, 3).contiguous()
    last = back.data_ptr() + (60 * 64 - 1) * back.element_size()
    addresses = (q.data_ptr(), last, v.data_ptr(), out.data_ptr())
    strides = (q.stride(), (back.stride(0), back.stride(1), -64, -1), v.stride(), out.stride())
    _C.cpu_attention(*addresses, 0, (1, 2, 2, 40, 60, 64), *strides, 0.125, True, 0, 0, 2)
    assert torch.equal(out, ours(q, k, v, True, scale=0.125))


def test_offsets_beyond_two_to_the_31(isa: str) -> None:
    """Elements more than 2^31 apart are found. The memory between them is never touched."""
    q, k, v = random_inputs((2, 1, 1, 7, 9, 32), torch.bfloat16)
    far = torch.empty(2**31 + 4096, dtype=torch.bfloat16)
    a, b, c = [
        far.as_strided(x.shape, (2**31, 0, 32, 1), i * 1024).copy_(x)
        for i, x in enumerate((q, k, v))
    ]
    assert torch.equal(ours(a, b, c, True), ours(q, k, v, True))
