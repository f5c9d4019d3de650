"""Gradients on GPUs where rows see one key, and of more heads than a dimension of a grid takes."""

import math

import pytest
import torch
from backward_truth import BackwardTruth, Shape, of_sdpa, ours, random_inputs, truth_of
from masks import IDS, MASKS
from torch import Tensor

if not torch.cuda.is_available():
    pytest.skip("torch sees no CUDA device", allow_module_level=True)

from flashbench.extension import load
from flashbench.operations.attention.operation import Causal

if not load().cuda_dtypes():
    pytest.skip("flashbench._C was built without CUDA kernels", allow_module_level=True)

BY_KERNELS = pytest.mark.usefixtures("kernels")
BY_MASK = pytest.mark.parametrize("causal", MASKS, ids=IDS)
BY_HEAD_DIM = pytest.mark.parametrize("head_dim", [32, 64, 80, 128, 160, 256])


def _rows_of_one_key(lengths: tuple[int, int], causal: Causal) -> slice:
    """The rows that see one key, and perhaps some that see none."""
    q_len, k_len = lengths
    row = q_len - k_len if causal == "bottom_right" else 0
    if k_len == 1:
        return slice(None)
    return slice(row, row + 1) if causal and row >= 0 else slice(0)


@BY_KERNELS
@BY_MASK
@BY_HEAD_DIM
@pytest.mark.parametrize(
    "lengths", [(1, 1), (239, 1), (1, 147), (2, 2), (300, 200), (130, 300)], ids=str
)
def test_rows_that_see_one_key(
    lengths: tuple[int, int], head_dim: int, causal: Causal, dtype: torch.dtype
) -> None:
    """They have a dq of exactly 0. Where no row sees more, dk is exactly 0, too."""
    q, k, v, dout = random_inputs((8, 2, 1, *lengths, head_dim), dtype, device="cuda")
    found = ours(q, k, v, dout, causal)
    dq, dk, dv = found
    one_key = _rows_of_one_key(lengths, causal)
    assert dq[:, :, one_key].eq(0).all()
    if len(range(lengths[0])[one_key]) == lengths[0]:
        assert dk.eq(0).all()
        assert dv[:, :, 1:].eq(0).all()
    truth_of(q, k, v, dout, causal).judge(found)


@BY_KERNELS
@BY_HEAD_DIM
@pytest.mark.parametrize(("q_len", "k_len"), [(1, 1), (1, 147)])
def test_the_weight_of_one_key_is_one(
    q_len: int, k_len: int, head_dim: int, dtype: torch.dtype
) -> None:
    """dv is dout, bit by bit, however large scores are."""
    q, k, v, dout = random_inputs((8, 3, 3, q_len, k_len, head_dim), dtype, device="cuda")
    dq, dk, dv = ours(40 * q, 40 * k, v, dout, True)
    assert torch.equal(dv[:, :, :1], dout)
    assert dq.eq(0).all()
    assert dk.eq(0).all()


@BY_KERNELS
@pytest.mark.parametrize("head_dim", [64, 128, 256])
@pytest.mark.parametrize("name", "qkvd")
@pytest.mark.parametrize(
    ("lengths", "causal"),
    [
        (lengths, causal)
        for lengths in [(1, 1), (9, 1), (1, 7), (5, 7), (7, 5)]
        for causal in MASKS
        if _rows_of_one_key(lengths, causal) != slice(0)
    ],
    ids=str,
)
def test_special_numbers_in_a_row_of_one_key(
    lengths: tuple[int, int], name: str, head_dim: int, causal: Causal, dtype: torch.dtype
) -> None:
    """NaN and infinity reach the gradients as in float64, not hidden by a weight known to be 1."""
    inputs = random_inputs((1, 3, 3, *lengths, head_dim), dtype, device="cuda")
    row = max(lengths[0] - lengths[1], 0) if causal == "bottom_right" and name in "qd" else 0
    for head, special in enumerate((math.nan, math.inf, -math.inf)):
        inputs["qkvd".index(name)][0, head, row, 3] = special
    q, k, v, dout = inputs
    found = ours(q, k, v, dout, causal)
    for gradient, right in zip(found, truth_of(q, k, v, dout, causal).expected, strict=True):
        if causal:  # they may also reach gradients of pairs that the mask hides
            assert not (gradient.isfinite() & ~right.isfinite()).any()
        else:
            assert torch.equal(gradient.isfinite(), right.isfinite())


def _truth_of_many_heads(q: Tensor, k: Tensor, v: Tensor, dout: Tensor) -> BackwardTruth:
    """With a causal mask, all heads at once: `truth_of` takes one after the other."""
    inputs = [x.double().requires_grad_() for x in (q, k, v)]
    group = q.shape[1] // k.shape[1]
    keys, values = (x.repeat_interleave(group, dim=1) for x in inputs[1:])
    scores = inputs[0] @ keys.transpose(2, 3) / math.sqrt(q.shape[3])
    hidden = torch.ones(scores.shape[2:], dtype=torch.bool, device=q.device).triu(1)
    out = torch.softmax(scores.masked_fill(hidden, -math.inf), dim=-1) @ values
    dq, dk, dv = torch.autograd.grad(out, inputs, dout.double())
    return BackwardTruth(
        q, k, v, dout, True, None, (dq, dk, dv), of_sdpa(q, k, v, dout, True, None)
    )


@BY_KERNELS
@pytest.mark.parametrize(
    "shape",
    [
        (2, 35000, 35000, 3, 5, 32),
        (4, 35000, 17500, 3, 5, 32),  # 70000 heads of keys
        (2, 35000, 35000, 2, 3, 128),
        (2, 35000, 35000, 2, 3, 256),
    ],
    ids=["mha", "gqa", "mha-128", "mha-256"],
)
def test_more_heads_than_a_grid_dimension(shape: Shape, dtype: torch.dtype, mode: bool) -> None:
    """batch * heads over 65535 is right, however it is split."""
    batch, heads, kv_heads, q_len, k_len, head_dim = shape
    q, dout = torch.randn(2, batch, heads, q_len, head_dim, dtype=dtype, device="cuda")
    k, v = torch.randn(2, batch, kv_heads, k_len, head_dim, dtype=dtype, device="cuda")
    found = ours(q, k, v, dout, True)
    _truth_of_many_heads(q, k, v, dout).judge(found)
    for batches in (1, batch * kv_heads):
        split = [x.reshape(batches, -1, *x.shape[2:]) for x in (q, k, v, dout)]
        again = ours(split[0], split[1], split[2], split[3], True)
        assert all(torch.equal(x.view(y.shape), y) for x, y in zip(again, found, strict=True))
