"""The short way of plain tensors (csrc/tensor_call.h) is taken when it may be, and only then."""

import math
from collections.abc import Callable

import pytest
import torch
from masks import IDS, MASKS, for_ours
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

import flashbench.kernels.torch_attention as torch_attention
from flashbench import attention
from flashbench.operations.attention.operation import Causal

pytestmark = pytest.mark.skipif(
    not hasattr(Tensor, "__dlpack_c_exchange_api__"), reason="this torch has no exchange API"
)


class Subclass(Tensor):
    """A tensor that may mean something else by its data."""


def tensors(heads: int = 2, kv_heads: int = 2, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """q, k and v of 5 queries, 7 keys and head dim 64."""
    torch.manual_seed(0)
    return [
        torch.randn(shape, dtype=torch.float32).to(dtype)
        for shape in ((1, heads, 5, 64), (1, kv_heads, 7, 64), (1, kv_heads, 7, 64))
    ]


def plain(
    q: object,
    k: object,
    v: object,
    is_causal: object = False,
    bottom_right: object = False,
    scale: object = None,
    enable_gqa: object = False,
) -> Tensor | None:
    """The short way alone: None where it leaves the call to Python."""
    out: Tensor | None = torch_attention._plain_attention(
        q, k, v, is_causal, bottom_right, scale, enable_gqa
    )
    return out


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("causal", MASKS, ids=IDS)
@pytest.mark.parametrize("scale", [None, 0.3, -1.0, math.inf])
def test_both_ways_compute_the_same_bits(
    dtype: torch.dtype, causal: Causal, scale: float | None
) -> None:
    """The short way gives what the checked one gives, bit for bit, in a new tensor like SDPA's."""
    q, k, v = tensors(dtype=dtype)
    out = plain(q, k, v, bool(causal), causal == "bottom_right", scale)
    assert out is not None
    options = {"attn_mask": None, "is_causal": False} | for_ours(causal)
    expected = torch_attention._checked_attention(q, k, v, **options, scale=scale, enable_gqa=False)
    assert torch.equal(out.nan_to_num(7.0), expected.nan_to_num(7.0))
    assert (out.shape, out.dtype, out.device) == (q.shape, q.dtype, q.device)
    assert out.is_contiguous()


def test_strided_views_and_grouped_heads_are_plain() -> None:
    """Any strides and grouped-query heads go the short way; the output has q's layout."""
    q, k, v = tensors(heads=4, kv_heads=2)
    strided = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    out = plain(*strided, enable_gqa=True)
    assert out is not None
    assert out.stride() == strided[0].stride()
    assert torch.equal(out, attention(q, k, v, enable_gqa=True))


NOT_PLAIN: dict[str, Callable[[Tensor], object]] = {
    "subclass": lambda x: x.as_subclass(Subclass),
    "parameter": lambda x: torch.nn.Parameter(x),
    "three dimensions": lambda x: x[0],
    "double": lambda x: x.double(),
    "meta device": lambda x: x.to("meta"),
    "sparse": lambda x: x.to_sparse(),
    "no tensor": lambda x: x.tolist(),
    "other head dim": lambda x: x[..., :56],
    "lazily negated": lambda x: torch.complex(torch.zeros_like(x), -x).conj().imag,
}


@pytest.mark.parametrize("what", NOT_PLAIN)
@pytest.mark.parametrize("which", [0, 1, 2])
def test_what_is_not_plain_is_left_to_python(what: str, which: int) -> None:
    """Whichever of q, k and v is not plain, nothing is computed and no exception is left behind."""
    arguments: list[object] = list(tensors())
    arguments[which] = NOT_PLAIN[what](tensors()[which])
    assert plain(*arguments) is None


def test_a_lazily_negated_tensor_is_refused_not_misread() -> None:
    """The values of such a view are not those in memory: attention says so."""
    q, k, v = tensors()
    with pytest.raises(ValueError, match="resolve_neg"):
        attention(NOT_PLAIN["lazily negated"](q), k, v)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options",
    [
        {"is_causal": 1},
        {"bottom_right": 1},
        {"enable_gqa": 0},
        {"scale": 2},
        {"scale": 1e39},
        {"is_causal": 0, "scale": "1", "enable_gqa": 0},
    ],
)
def test_options_that_only_python_judges_are_left_to_it(options: dict[str, object]) -> None:
    """Flags that are not bool and scales that are not float take the checked way."""
    assert plain(*tensors(), **options) is None


def test_shapes_that_do_not_fit_are_left_to_python() -> None:
    """Lengths, batches and heads that differ are reported by the checked way."""
    q, k, v = tensors()
    assert plain(q, k, v[:, :, :-1]) is None
    assert plain(q, k.expand(2, -1, -1, -1), v.expand(2, -1, -1, -1)) is None
    assert plain(*tensors(heads=4, kv_heads=2)) is None
    assert plain(*tensors(heads=3, kv_heads=2), enable_gqa=True) is None


def test_tensors_without_memory_are_refused() -> None:
    """What functionalize wraps, a tensor of zeros alone, a fake output: an error, no crash."""
    q, k, v = tensors()
    zeros = torch._efficientzerotensor(q.shape)
    assert plain(zeros, k, v) is None
    with pytest.raises(ValueError, match="q has no memory"):
        attention(zeros, k, v)

    def refused(x: Tensor) -> Tensor:
        with pytest.raises(ValueError, match="k has no memory"):
            attention(q, x, v)
        return x

    torch.func.functionalize(refused)(k)
    with (
        FakeTensorMode(allow_non_fake_inputs=True),
        pytest.raises(ValueError, match="output has no memory"),
    ):
        attention(q, k, v)


def test_vmap_is_left_to_torch() -> None:
    """A batched tensor of vmap has no data of its own: the short way does not touch it."""
    seen: list[Tensor | None] = []

    def record(x: Tensor) -> Tensor:
        seen.append(plain(x, x, x))
        return x

    torch.vmap(record)(torch.randn(3, 1, 2, 4, 64))
    assert seen == [None]


def test_tangents_and_traces_are_refused() -> None:
    """What would be lost without a word, as a tangent or in a trace, is an error."""
    q, k, v = tensors()
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(k, torch.ones_like(k))
        with pytest.raises(ValueError, match="k has a tangent"):
            attention(q, dual, v)
        assert attention(q, k, v).shape == q.shape
    with pytest.raises(ValueError, match=r"jit\.trace"):
        torch.jit.trace(lambda q, k, v: attention(q, k, v), (q, k, v))


def test_other_dispatch_modes_see_a_right_result() -> None:
    """A mode that only looks on, as a counter of operations does, changes nothing."""
    q, k, v = tensors()
    with FlopCounterMode(display=False):
        out = attention(q, k, v)
    assert torch.equal(out, attention(q, k, v))
