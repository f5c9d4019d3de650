"""CPU kernels on NaN, infinities, empty inputs and every 16-bit number there is."""

import math
from functools import lru_cache

import pytest
import torch
from kernels.cpu_truth import Truth, ours, random_inputs, truth_of
from torch import Tensor

from flashbench.operations.attention.operation import Causal


@lru_cache(maxsize=32)
def _special_truth(lengths: tuple[int, int], dtype: torch.dtype, causal: Causal) -> Truth:
    """Nine heads: NaN, Inf and -Inf, each once in q, in k and in v."""
    inputs = random_inputs((1, 9, 9, *lengths, 40), dtype)
    for head in range(9):
        special = (math.nan, math.inf, -math.inf)[head % 3]
        inputs[head // 3][0, head, min(lengths) // 2, 3] = special
    return truth_of(*inputs, causal)


@pytest.mark.parametrize(
    "lengths",
    [(5, 7), (40, 2), (40, 6), (7, 13), (20, 13), (40, 50), (30, 200), (200, 140)],
    ids=str,
)
def test_special_numbers_propagate(
    lengths: tuple[int, int], dtype: torch.dtype, mask: Causal, isa: str
) -> None:
    """One NaN or infinity reaches exactly the outputs it reaches in float64.

    With a causal mask the rows before it do not see it, whatever tile they share with rows that do.
    """
    _special_truth(lengths, dtype, mask).judge_ours()


@pytest.mark.parametrize("dim", [0, 70, 135])
def test_a_hidden_value_in_any_panel(dim: int, dtype: torch.dtype, isa: str) -> None:
    """A NaN in one panel of the values reaches its own column, and the rows that see it alone."""
    q, k, v = random_inputs((1, 1, 1, 150, 150, 136), dtype)
    v[0, 0, 77, dim] = math.nan
    expected = torch.zeros(150, 136, dtype=torch.bool)
    expected[77:, dim] = True
    assert torch.equal(ours(q, k, v, True)[0, 0].isnan(), expected)
    truth_of(q, k, v, True).judge_ours()


@pytest.mark.parametrize("special", [math.nan, math.inf])
def test_values_hidden_from_few_rows(special: float, dtype: torch.dtype, isa: str) -> None:
    """A NaN or infinity reaches those of a group's six rows that see it: each second one sees one
    key more of the last block."""
    q, k, v = random_inputs((1, 2, 1, 3, 140, 40), dtype)
    v[0, 0, 138, 7] = special
    expected = torch.zeros(2, 3, 40, dtype=torch.bool)
    expected[:, 1:, 7] = True
    assert torch.equal(~ours(q, k, v, "bottom_right")[0].isfinite(), expected)
    truth_of(q, k, v, "bottom_right").judge_ours()


@pytest.mark.parametrize("lengths", [(9, 2), (9, 4), (300, 141)], ids=str)
def test_rows_that_see_no_key_are_zeros(
    lengths: tuple[int, int], dtype: torch.dtype, isa: str
) -> None:
    """Aligned at the bottom right, queries before the first key give zeros, whatever there is."""
    q_len, k_len = lengths
    q, k, v = random_inputs((1, 4, 2, q_len, k_len, 48), dtype)
    k[:, 0], v[:, 0, :, 3], q[:, 0, 0] = math.nan, math.inf, math.nan
    out = ours(q, k, v, "bottom_right")
    assert out[:, :, : q_len - k_len].eq(0).all()
    assert out[:, :2, q_len - k_len :].isnan().all()
    truth_of(q, k, v, "bottom_right").judge(out)


@pytest.mark.parametrize("scale", [0.0, 3e38, -3e38])
def test_scales_at_the_ends(scale: float, isa: str) -> None:
    """With a scale of 0 scores near the largest number weigh the same; no scale is infinite."""
    q, k, v = random_inputs((1, 2, 2, 40, 300, 32), torch.float32)
    if scale == 0:
        q, k = q * 1e16, k * 1e16
    truth_of(q, k, v, False, scale).judge_ours()
    one = q[:, :, :1]
    truth_of(one, k, v, False, scale).judge_ours()
    truth_of(q, k[:, :, :4], v[:, :, :4], False, scale).judge_ours()


@pytest.mark.parametrize(("k_len", "infinite"), [(2, 1), (7, 3), (300, 140)])
def test_scores_of_minus_infinity(
    k_len: int, infinite: int, dtype: torch.dtype, causal: bool, isa: str
) -> None:
    """Keys with the score -inf weigh nothing; a row that sees no other is NaN, as in float64."""
    q, k, v = random_inputs((1, 2, 2, 150, k_len, 32), dtype)
    q = q.abs()
    k[:, :, :infinite] = -math.inf
    truth_of(q, k, v, causal).judge_ours()
    k[:] = -math.inf
    assert ours(q, k, v, causal).isnan().all()


def test_a_nan_scale_gives_nan(isa: str) -> None:
    """A scale that is no number is not hidden."""
    q, k, v = random_inputs((1, 2, 2, 20, 30, 32), torch.float32)
    assert ours(q, k, v, False, scale=math.nan).isnan().all()


def test_no_keys_and_no_queries(dtype: torch.dtype, mask: Causal, isa: str) -> None:
    """Without keys the output is zero; without queries it is empty."""
    q, k, v = random_inputs((2, 4, 2, 9, 11, 48), dtype)
    out = ours(q, k[:, :, :0], v[:, :, :0], mask)
    assert out.eq(0).all()
    assert ours(q[:, :, :0], k, v, mask).shape == (2, 4, 0, 48)


def _every_number(dtype: torch.dtype) -> Tensor:
    """All 2^16 numbers of a 16-bit dtype, as (1024, 1, 1, 64)."""
    bits = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)
    return bits.view(dtype).reshape(1024, 1, 1, 64)


def _same(a: Tensor, b: Tensor) -> bool:
    return bool(((a == b) | (a.isnan() & b.isnan())).all())


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16], ids=["fp16", "bf16"])
def test_sixteen_bit_numbers_survive(half: torch.dtype, isa: str) -> None:
    """With one key the output is its value: nothing is lost on the way, subnormals included."""
    v = _every_number(half)
    zero = torch.zeros_like(v)
    assert _same(ours(zero, zero, v, False), v)


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16], ids=["fp16", "bf16"])
def test_stores_round_as_torch(half: torch.dtype, isa: str) -> None:
    """The mean of two values is rounded to the nearest, ties to even, NaN and Inf as torch does."""
    a = _every_number(half)
    order = torch.randperm(2**16, generator=torch.Generator().manual_seed(2))
    b = a.flatten()[order].reshape(a.shape)
    neighbour = a.flatten().roll(1).reshape(a.shape)  # its mean with a is a tie
    for other in (b, neighbour):
        q, k = torch.zeros_like(a), torch.zeros_like(a).expand(-1, -1, 2, -1)
        out = ours(q, k, torch.cat([a, other], dim=2), False)
        assert _same(out, ((a.float() + other.float()) / 2).to(half))


def test_subnormal_bf16_in_products(isa: str) -> None:
    """Subnormal values count in sums, except as zero where the CPU multiplies bf16 itself."""
    v = torch.full((1, 1, 64, 32), 1e-39).bfloat16()
    zero = torch.zeros_like(v)
    expected = zero if isa in ("avx512bf16", "amx") else v
    assert torch.equal(ours(zero, zero, v, False), expected)
