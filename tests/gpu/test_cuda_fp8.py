"""The e4m3 kernels on a Hopper GPU: the rule of tests/e4m3_rule.py, shapes, NaN, one operation."""

import math

import pytest
import torch
from e4m3_rule import KINDS, assert_within_twice, emulate, inputs
from masks import IDS, MASKS, for_ours
from torch import Tensor

if not torch.cuda.is_available():
    pytest.skip("torch sees no CUDA device", allow_module_level=True)
if torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("the e4m3 kernels need a Hopper GPU", allow_module_level=True)

from flashbench.kernels import fp8, torch_attention
from flashbench.measuring.inspect import kernels_of
from flashbench.operations.attention.operation import Causal

if not torch_attention._C.has_cuda_e4m3():
    pytest.skip("flashbench._C was built without e4m3 kernels", allow_module_level=True)

LENGTHS = [(1, 1), (197, 300), (300, 77), (513, 129), (128, 128)]
BY_MASK = pytest.mark.parametrize("causal", MASKS, ids=IDS)


def tensors(heads: tuple[int, int], lengths: tuple[int, int], head_dim: int) -> list[Tensor]:
    return inputs("normal", heads, lengths, head_dim, "cuda")


@BY_MASK
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize("length", [64, 128, 512, 2048, 4096, 16384])
def test_error_is_within_twice(length: int, head_dim: int, kind: str, causal: Causal) -> None:
    """At every length the error is at most twice that of quantising the inputs."""
    q, k, v = inputs(kind, (2, 2), (length, length), head_dim, "cuda")
    out = fp8.attention_e4m3(fp8.quantize_e4m3(q, k, v), **for_ours(causal))
    assert out.dtype == q.dtype
    assert_within_twice(out, q, k, v, causal)


@BY_MASK
@pytest.mark.parametrize("head_dim", [32, 40, 64, 72, 96, 128])
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("heads", [(3, 3), (6, 2), (140, 70)], ids=str)
def test_shapes(
    heads: tuple[int, int], lengths: tuple[int, int], head_dim: int, causal: Causal
) -> None:
    """Ragged lengths, grouped heads and padded head dims are within the rule, always alike."""
    q, k, v = tensors(heads, lengths, head_dim)
    quantized = fp8.quantize_e4m3(q, k, v)
    out = fp8.attention_e4m3(quantized, **for_ours(causal))
    assert_within_twice(out, q, k, v, causal)
    again = fp8.attention_e4m3(quantized, **for_ours(causal))
    assert torch.equal(out.view(torch.int16), again.view(torch.int16))


@BY_MASK
@pytest.mark.parametrize("head_dim", [64, 128])
def test_agrees_with_the_algorithm_in_torch(head_dim: int, causal: Causal) -> None:
    """It differs from the emulation by far less than both do from the truth."""
    q, k, v = (x.to(torch.float16) for x in tensors((4, 2), (300, 700), head_dim))
    quantized = fp8.quantize_e4m3(q, k, v)
    difference = fp8.attention_e4m3(quantized, **for_ours(causal)) - emulate(quantized, causal)
    assert difference.float().norm() < 0.02 * emulate(quantized, causal).float().norm()


def test_scale_and_output_dtype() -> None:
    """The scale is used, and the output has the dtype that the inputs had."""
    q, k, v = (x.to(torch.float16) for x in tensors((2, 2), (130, 260), 64))
    out = fp8.attention_e4m3(fp8.quantize_e4m3(q, k, v), scale=0.03)
    assert out.dtype == torch.float16
    # The rule knows the usual scale, 1 / 8.
    assert_within_twice(out, q * (0.03 * 8), k, v, False)


def test_no_keys_give_zeros_and_no_queries_nothing() -> None:
    """Empty lengths are no error."""
    q, k, v = tensors((2, 2), (5, 7), 64)
    no_keys = fp8.quantize_e4m3(q, k[:, :, :0], v[:, :, :0])
    assert (fp8.attention_e4m3(no_keys) == 0).all()
    assert fp8.attention_e4m3(fp8.quantize_e4m3(q[:, :, :0], k, v)).shape == (1, 2, 0, 64)


@BY_MASK
def test_queries_and_keys_of_zeros_give_the_mean(causal: Causal) -> None:
    """As left padding makes them: all keys that a row sees weigh the same, masked ones nothing."""
    q, k, v = tensors((2, 2), (300, 300), 64)
    out = fp8.attention_e4m3(fp8.quantize_e4m3(q * 0, k * 0, v), **for_ours(causal))
    assert_within_twice(out, q * 0, k * 0, v, causal)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_nonfinite_inputs(value: float) -> None:
    """NaN and infinity make NaN of the rows that see them; of v, also of rows in the same 128."""
    clean = tensors((1, 1), (300, 300), 64)
    for name, row in (("q", 40), ("k", 140), ("v", 150)):
        q, k, v = (x.clone() for x in clean)
        {"q": q, "k": k, "v": v}[name][0, 0, row, 5] = value
        nan = fp8.attention_e4m3(fp8.quantize_e4m3(q, k, v), is_causal=True)[0, 0].isnan()
        if name == "q":
            assert nan[row].all()
            assert int(nan.sum()) == 64
        elif name == "k":
            assert nan[row:].all()
            assert not nan[:row].any()
        else:
            assert nan[row:, 5].all()
            assert not nan[:128].any()
            assert not nan[:, :5].any()
            assert not nan[:, 6:].any()


def test_one_operation_a_call() -> None:
    """A call is one kernel, which a graph can hold."""
    quantized = fp8.quantize_e4m3(*tensors((4, 4), (300, 300), 64))
    expected = fp8.attention_e4m3(quantized)
    assert len(kernels_of(lambda: fp8.attention_e4m3(quantized))) == 1
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = fp8.attention_e4m3(quantized)
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, expected)
