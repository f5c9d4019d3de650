"""The gradients of the CPU kernels against float64, by the rule of the forward."""

import math
from functools import lru_cache

import pytest
import torch
from backward_truth import Shape, Three, ours, random_inputs, random_truth, truth_of, with_outliers
from hypothesis import given, settings
from hypothesis import strategies as st
from masks import MASKS, for_reference
from torch import Tensor

from flashbench import attention, operations
from flashbench.callables import OUR_CALLABLE
from flashbench.case import DTYPES
from flashbench.extension import load
from flashbench.kernels import kernel_call
from flashbench.kernels.scoring import Scoring
from flashbench.operations.attention import shapes
from flashbench.operations.attention.operation import Causal
from flashbench.operations.attention.truth_backward import attention_backward
from flashbench.revisions.correctness import check_named

_C = load()

_LENGTHS = [
    (1, 1),
    (64, 128),
    (239, 1),
    (239, 2),
    (799, 3),
    (113, 203),
    (128, 217),
    (384, 256),
    (640, 128),
]
_LONG = [(9, 600, 256), (450, 451, 256), (451, 450, 256), (1023, 1024, 64), (1024, 1023, 64)]


@pytest.mark.parametrize("lengths", _LENGTHS, ids=str)
def test_lengths_that_find_bugs(
    lengths: tuple[int, int], dtype: torch.dtype, mask: Causal, isa: str
) -> None:
    """Lengths around tile and block edges give right gradients."""
    random_truth((1, 2, 1, *lengths, 64), dtype, mask).judge_ours()


@pytest.mark.parametrize("shape", _LONG, ids=str)
def test_several_sections_of_keys(
    shape: tuple[int, int, int], dtype: torch.dtype, mask: Causal
) -> None:
    """Keys that fill three sections of the scratch memory or more (at head dim 256 one has 140 keys
    in fp32, 201 in 16 bits), and lengths of a thousand, one more and one less."""
    random_truth((1, 1, 1, *shape), dtype, mask).judge_ours()


_OF_FLASH_ATTENTION = [(1, 147), (113, 211), (108, 256), (256, 512), (512, 256)]


@pytest.mark.parametrize("lengths", _OF_FLASH_ATTENTION, ids=str)
@pytest.mark.parametrize(("kv_heads", "head_dim"), [(2, 32), (1, 64), (2, 128)], ids=str)
def test_parameters_of_flash_attention(
    lengths: tuple[int, int], kv_heads: int, head_dim: int
) -> None:
    """FlashAttention's own test parameters are right by the rule of every run, in all dtypes."""
    operation = operations.named("attention-backward")
    sizes = shapes.Shape(1, 2, kv_heads, *lengths, head_dim).sizes
    cases = [
        operation.case(sizes, dtype, "cpu", options).id
        for dtype in DTYPES
        for options in operation.options
    ]
    found = check_named(attention, OUR_CALLABLE, cases)
    assert not found.wrong
    assert len(found.right) == len(cases)


@pytest.mark.parametrize("head_dim", [32, 40, 56, 72, 136, 248, 256])
def test_head_dims(head_dim: int, dtype: torch.dtype, isa: str) -> None:
    """Head dims that fill vectors and panels, and those that do not, are right."""
    random_truth((2, 2, 2, 70, 150, head_dim), dtype, True).judge_ours()


@pytest.mark.parametrize(("heads", "kv_heads"), [(3, 3), (8, 1), (6, 2)])
def test_grouped_query_heads(
    heads: int, kv_heads: int, mask: Causal, dtype: torch.dtype, isa: str
) -> None:
    """dk and dv sum over the query heads of a group."""
    random_truth((2, heads, kv_heads, 67, 131, 40), dtype, mask).judge_ours()


@pytest.mark.parametrize("scale", [0.0, 1e-3, 1.0, -0.2])
def test_scales(scale: float, dtype: torch.dtype, mask: Causal) -> None:
    """The scale is an argument of any sign; with zero, q and k have no gradient."""
    random_truth((1, 4, 4, 100, 150, 64), dtype, mask, scale).judge_ours()


def test_outliers(dtype: torch.dtype, mask: Causal, isa: str) -> None:
    """Rare elements ten times larger do no harm."""
    inputs = random_inputs((1, 4, 2, 200, 200, 64), dtype)
    truth_of(*(with_outliers(x, seed) for seed, x in enumerate(inputs)), mask).judge_ours()


def test_one_key_has_no_score_to_change(dtype: torch.dtype, isa: str) -> None:
    """With one key the weight is 1 whatever the score: dq and dk are 0, dv is dout's sum."""
    q, k, v, dout = random_inputs((2, 2, 2, 30, 1, 64), dtype)
    dq, dk, dv = ours(q, k, v, dout, False)
    assert dq.eq(0).all()
    assert dk.eq(0).all()
    expected = dout.double().sum(dim=2, keepdim=True)
    torch.testing.assert_close(dv.double(), expected, rtol=2**-8, atol=1e-3)


@pytest.mark.parametrize("lengths", [(1, 1), (239, 1), (1, 147), (2, 2), (300, 200)], ids=str)
def test_rows_that_see_one_key(
    lengths: tuple[int, int], dtype: torch.dtype, mask: Causal, isa: str
) -> None:
    """They have a dq of exactly 0 and add exactly 0 to dk, in many problems."""
    q_len, k_len = lengths
    dq, dk, _ = ours(*random_inputs((30, 2, 1, *lengths, 64), dtype), mask)
    row = q_len - k_len if mask == "bottom_right" else 0
    one_key = slice(None) if k_len == 1 else slice(row, row + 1) if mask and row >= 0 else slice(0)
    assert dq[:, :, one_key].eq(0).all()
    if len(range(q_len)[one_key]) == q_len:
        assert dk.eq(0).all()


@lru_cache(maxsize=4)  # each instruction set in turn meets the same cases
def _few_keys(
    lengths: tuple[int, int], mask: Causal
) -> tuple[tuple[Tensor, Tensor, Tensor, Tensor], Three]:
    inputs = random_inputs((200, 1, 1, *lengths, 64), torch.float32)
    return inputs, attention_backward(*inputs, **for_reference(mask))


@pytest.mark.parametrize(("lengths", "bound"), [((2, 2), 2.1e-7), ((3, 3), 2.8e-7)], ids=str)
def test_few_keys_in_many_problems(
    lengths: tuple[int, int], bound: float, causal: bool, isa: str
) -> None:
    """In fp32 the largest errors of dq and dk are small in the mean of 200 problems. With
    sum(dO * O), whose rounding is not that of dP, they would be up to 3.7e-7."""
    inputs, expected = _few_keys(lengths, causal)
    for found, right in list(zip(ours(*inputs, causal), expected, strict=True))[:2]:
        assert (found.double() - right).abs().amax(dim=(1, 2, 3)).mean() < bound


@pytest.mark.parametrize(
    ("lengths", "causal"), [((65, 5), False), ((130, 2), False), ((3, 129), True)], ids=str
)
def test_few_keys_of_large_scores(lengths: tuple[int, int], causal: bool, isa: str) -> None:
    """Largest errors of dv in fp32 are those of SDPA in the mean of 50 problems. With weights from
    a log-sum-exp as large as the scores, a few hundred, they would be up to 4 times as large."""
    truth = random_truth((50, 1, 1, *lengths, 128), torch.float32, causal, scale=3.0)
    expected = truth.expected[2]
    found, sdpa = (
        (dv.double() - expected).abs().amax(dim=(1, 2, 3)).mean()
        for dv in (truth.ours()[2], truth.sdpa[2])
    )
    assert found < 1.2 * sdpa


def test_the_log_sum_exp_is_rounded_once(isa: str) -> None:
    """Its root mean square error over 600 keys is near that of rounding to fp32, 1.4e-7."""
    q, k, v, _ = random_inputs((30, 1, 1, 30, 600, 64), torch.float32)
    _, lse = kernel_call.forward(q, k, v, Scoring(False, False, None), with_lse=True)
    assert lse is not None
    right = (q.double() @ k.double().mT / 8).logsumexp(dim=-1)
    assert (lse[..., :30] - right).square().mean().sqrt() < 1.75e-7


@lru_cache(maxsize=16)  # each instruction set in turn meets the same cases
def _special_truth(
    name: int, lengths: tuple[int, int], dtype: torch.dtype, mask: Causal
) -> tuple[tuple[Tensor, ...], Three]:
    inputs = random_inputs((1, 3, 3, *lengths, 40), dtype)
    for head, special in enumerate((math.nan, math.inf, -math.inf)):
        inputs[name][0, head, min(lengths) // 2, 3] = special
    return inputs, attention_backward(*inputs, **for_reference(mask))


@pytest.mark.parametrize("lengths", [(5, 7), (100, 150), (150, 100)], ids=str)
def test_special_numbers_propagate(
    lengths: tuple[int, int], dtype: torch.dtype, mask: Causal, isa: str
) -> None:
    """One NaN or infinity reaches exactly the gradients it reaches in float64.

    Pairs that the mask hides pass nothing on, whatever block they share with pairs that are seen.
    """
    for name in range(4):  # q, k, v or dout
        inputs, expected = _special_truth(name, lengths, dtype, mask)
        for gradient, right in zip(ours(*inputs, mask), expected, strict=True):
            assert torch.equal(gradient.isfinite(), right.isfinite()), name


@pytest.mark.parametrize("k_len", [2, 16, 388])
def test_weights_of_a_single_query(k_len: int, isa: str) -> None:
    """The weights of a single query's large scores add up to 1, as those of several queries do.

    They are what v's gradient is made of. They do where forward and backward sum scores alike, so
    that log-sum-exp and scores have the same errors.
    """
    largest = 0.0
    for seed in range(40):
        q, k, v, _ = random_inputs((1, 1, 1, 1, k_len, 80), torch.float32, seed)
        dout = torch.ones_like(q)
        dv = ours(q, k, v, dout, False, 1.0)[2]
        largest = max(largest, (dv.double()[..., 0].sum() - 1).abs().item())
    assert largest < 2.2e-6


@pytest.mark.parametrize("q_len", [1, 2, 3, 15, 17, 33])
def test_a_key_that_no_row_weighs(q_len: int, dtype: torch.dtype, isa: str) -> None:
    """A key of score -inf in every row gets zeros, at lengths that pairs and tiles exceed."""
    q, k, v, dout = random_inputs((1, 2, 1, q_len, 7, 64), dtype)
    q, k = q.abs(), k.clone()
    k[..., 3, 5] = -math.inf
    _, dk, dv = ours(q, k, v, dout, False)
    assert not dk[..., 3, :].any()
    assert not dv[..., 3, :].any()
    assert dk.isfinite().all()
    assert dv.isfinite().all()


@pytest.mark.parametrize("shape", [(2, 4, 2, 0, 9, 32), (2, 4, 2, 9, 0, 32), (0, 4, 2, 9, 9, 32)])
def test_empty_inputs(shape: Shape, dtype: torch.dtype, mask: Causal) -> None:
    """Without queries or keys, what gradients there are, are zeros."""
    for gradient in ours(*random_inputs(shape, dtype), mask):
        assert gradient.eq(0).all()


def test_rows_that_see_no_key(dtype: torch.dtype, isa: str) -> None:
    """They have no gradient and no part in those of keys, even if they are NaN."""
    q, k, v, dout = random_inputs((1, 4, 2, 300, 141, 48), dtype)
    q[:, :, :159], dout[:, :, 10:150] = math.nan, math.inf
    dq, dk, dv = ours(q, k, v, dout, "bottom_right")
    assert dq[:, :, :159].eq(0).all()
    q[:, :, :159], dout[:, :, :159] = 0, 0
    truth_of(q, k, v, dout, "bottom_right").judge((dq, dk, dv))


def _strided(x: Tensor) -> Tensor:
    """The same numbers at other places: heads and lengths exchanged, gaps between head dims."""
    wide = torch.full((*x.shape[:3], 2 * x.shape[3] + 3), math.nan, dtype=x.dtype)
    wide = wide.transpose(1, 2).contiguous().transpose(1, 2)
    wide[..., 1 : 1 + 2 * x.shape[3] : 2] = x
    return wide[..., 1 : 1 + 2 * x.shape[3] : 2]


def test_strides_do_not_matter(dtype: torch.dtype, mask: Causal, isa: str) -> None:
    """Tensors in any layout give the same bits as contiguous ones."""
    inputs = random_inputs((2, 4, 2, 70, 110, 40), dtype)
    expected = ours(*inputs, mask)
    for found, right in zip(ours(*map(_strided, inputs), mask), expected, strict=True):
        assert torch.equal(found, right)


def test_an_expanded_gradient(dtype: torch.dtype) -> None:
    """The gradient of a sum is one number repeated, with strides of zero."""
    q, k, v, _ = random_inputs((1, 2, 2, 40, 50, 32), dtype)
    one = torch.ones(1, dtype=dtype).expand(q.shape)
    for found, right in zip(
        ours(q, k, v, one, True), ours(q, k, v, one.contiguous(), True), strict=True
    ):
        assert torch.equal(found, right)


@pytest.mark.parametrize("shape", [(1, 1, 1, 300, 400, 64), (3, 4, 2, 150, 130, 40)])
def test_threads_do_not_matter(
    shape: Shape, dtype: torch.dtype, mask: Causal, isa: str, threads: None
) -> None:
    """Any number of threads, and any cut into tasks, gives the same bits; so does a second run."""
    inputs = random_inputs(shape, dtype)
    results = []
    for count in (1, 2, 5, 5):
        torch.set_num_threads(count)
        results.append(ours(*inputs, mask))
    for found in results[1:]:
        assert all(torch.equal(x, y) for x, y in zip(found, results[0], strict=True))


@pytest.mark.parametrize("wanted", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 1, 1), (1, 0, 1)], ids=str)
def test_some_gradients_alone(wanted: tuple[int, ...], mask: Causal, isa: str) -> None:
    """Gradients that are not wanted are not computed; the others have the same bits."""
    q, k, v, dout = random_inputs((2, 4, 2, 100, 120, 40), torch.bfloat16)
    scoring = Scoring(bool(mask), mask == "bottom_right", None)
    out, lse = kernel_call.forward(q, k, v, scoring, with_lse=True)
    assert lse is not None
    found = kernel_call.backward((q, k, v, out, lse), dout, scoring, [bool(x) for x in wanted])
    for gradient, right, want in zip(found, ours(q, k, v, dout, mask), wanted, strict=True):
        assert (gradient is not None) == bool(want)
        assert gradient is None or torch.equal(gradient, right)


@settings(max_examples=60, derandomize=True)
@given(
    isa=st.sampled_from(_C.usable_isas()),
    dtype=st.sampled_from([torch.float32, torch.float16, torch.bfloat16]),
    batch=st.integers(1, 2),
    kv_heads=st.integers(1, 2),
    group=st.integers(1, 3),
    lengths=st.tuples(st.integers(8, 250), st.integers(8, 250)),
    head_dim=st.sampled_from(range(32, 257, 8)),
    causal=st.sampled_from(MASKS),
    scale=st.sampled_from([None, 0.02, 0.2, -0.1]),
    seed=st.integers(0, 2**16),
)
def test_any_case(
    isa: str,
    dtype: torch.dtype,
    batch: int,
    kv_heads: int,
    group: int,
    lengths: tuple[int, int],
    head_dim: int,
    causal: Causal,
    scale: float | None,
    seed: int,
) -> None:
    """Random shapes, scales and masks are right on every instruction set."""
    before = _C.selected_isa()
    _C.select_isa(isa)
    try:
        shape = (batch, kv_heads * group, kv_heads, *lengths, head_dim)
        truth_of(*random_inputs(shape, dtype, seed), causal, scale).judge_ours()
    finally:
        _C.select_isa(before)
