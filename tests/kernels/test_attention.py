"""flashbench.attention from a user's view: its semantics and its refusals."""

import importlib
import inspect
from types import ModuleType

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from flashbench import attention


def _qkv(*shape: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(shape, generator=generator).to(dtype) for _ in range(3)]


@pytest.fixture
def bias() -> ModuleType:
    """torch's masks, of which the import takes a second."""
    return importlib.import_module("torch.nn.attention.bias")


@pytest.mark.parametrize("name", ["full", "causal", "upper_left", "lower_right"])
def test_means_what_sdpa_means(bias: ModuleType, name: str) -> None:
    """Same arguments, same result as SDPA, with a scale and grouped heads."""
    mask = {
        "full": {"is_causal": False},
        "causal": {"is_causal": True},
        "upper_left": {"attn_mask": bias.causal_upper_left(30, 40)},
        "lower_right": {"attn_mask": bias.causal_lower_right(30, 40)},
    }[name]
    q, k, v = _qkv(2, 8, 40, 64)
    q, k, v = q[:, :, :30], k[:, :2], v[:, :2]
    arguments = {**mask, "scale": 0.3, "enable_gqa": True}
    expected = scaled_dot_product_attention(q, k, v, **arguments)
    torch.testing.assert_close(attention(q, k, v, **arguments), expected, rtol=1e-4, atol=1e-5)


def test_takes_sdpas_arguments() -> None:
    """In SDPA's order, with its defaults; by keyword alone where SDPA takes no other."""
    (theirs,) = torch._C._jit_get_schemas_for_operator("aten::scaled_dot_product_attention")
    own = list(inspect.signature(attention).parameters.values())
    assert [(one.name, one.default, one.kind is one.KEYWORD_ONLY) for one in own][3:] == [
        (one.name, one.default_value, one.kwarg_only) for one in theirs.arguments
    ][3:]


@pytest.mark.parametrize("compiled", [False, True])
def test_dropout_is_refused(compiled: bool) -> None:
    """Eager and compiled, with what to do instead."""
    call = torch.compile(attention, backend="eager") if compiled else attention
    q, k, v = _qkv(2, 4, 8, 32)
    assert torch.equal(call(q, k, v, None, 0.0, True), attention(q, k, v, is_causal=True))
    with pytest.raises(ValueError, match=r"^dropout_p must be 0, got 0\.1; .* if self\.training"):
        call(q, k, v, dropout_p=0.1)


def test_a_variant_alone_fits_any_lengths(bias: ModuleType) -> None:
    """CausalVariant means the CausalBias of the tensors' lengths, in three dimensions too."""
    q, k, v = _qkv(4, 40, 32)
    q = q[:, :13]
    for variant in bias.CausalVariant:
        expected = attention(q, k, v, attn_mask=bias.CausalBias(variant, 13, 40))
        assert torch.equal(attention(q, k, v, attn_mask=variant), expected)


def test_one_query_at_the_bottom_right_sees_all(bias: ModuleType) -> None:
    """The last query, as in decoding, is not masked."""
    q, k, v = _qkv(1, 4, 40, 32)
    last = q[:, :, -1:]
    assert torch.equal(
        attention(last, k, v, attn_mask=bias.CausalVariant.LOWER_RIGHT), attention(last, k, v)
    )


def test_masks_that_are_refused(bias: ModuleType) -> None:
    """Masks of other kinds or lengths, or beside is_causal, are named."""
    q, k, v = _qkv(2, 4, 8, 32)
    _refused(
        TypeError, "^attn_mask must be None, or a CausalBias", q, k, v, attn_mask=torch.ones(8, 8)
    )
    told = "^attn_mask must be None.* got str; for a causal mask pass is_causal=True.*scaled_dot"
    _refused(TypeError, told, q, k, v, attn_mask="causal")
    wrong = bias.causal_lower_right(8, 9)
    _refused(
        ValueError,
        r"^attn_mask is for the lengths \(8, 9\), q and k have \(8, 8\)",
        q,
        k,
        v,
        attn_mask=wrong,
    )
    lower_right = bias.CausalVariant.LOWER_RIGHT
    both = {"attn_mask": lower_right, "is_causal": True}
    _refused(ValueError, "^attn_mask is given, so is_causal must be False", q, k, v, **both)
    _refused(TypeError, "^q must be a torch.Tensor", [1], k, v, attn_mask=lower_right)


def test_batch_dimension_may_be_left_out() -> None:
    """Three dimensions are a batch of one."""
    q, k, v = _qkv(4, 10, 32)
    whole = attention(q[None], k[None], v[None])[0]
    assert torch.equal(attention(q, k, v), whole)


@pytest.mark.parametrize("shape", [(0, 4, 8, 32), (2, 0, 8, 32), (2, 4, 0, 32)])
def test_empty_inputs_give_empty_outputs(shape: tuple[int, ...]) -> None:
    """Nothing in, nothing out, in the right shape."""
    assert attention(*_qkv(*shape)).shape == shape


def test_no_keys_give_zeros() -> None:
    """Queries without a single key give zeros, as SDPA's."""
    q, k, _ = _qkv(2, 4, 8, 32)
    out = attention(q, k[:, :, :0], k[:, :, :0])
    assert out.shape == q.shape
    assert out.eq(0).all()


def _refused(error: type[Exception], match: str, q, k, v, **arguments: object) -> None:
    with pytest.raises(error, match=match):
        attention(q, k, v, **arguments)


def test_unsupported_input_is_refused_by_name() -> None:
    """Each thing that is not supported is an error that names the argument; nothing falls back."""
    q, k, v = _qkv(2, 4, 8, 64)
    _refused(TypeError, "^q must be a torch.Tensor", [1.0], k, v)
    _refused(ValueError, "^k must have 4 dimensions", q, k[0], v)
    _refused(TypeError, "^v has dtype torch.float16", q, k, v.half())
    _refused(TypeError, "^q has dtype torch.float64", q.double(), k.double(), v.double())
    _refused(ValueError, "^k has batch 1", q, k[:1], v)
    _refused(ValueError, "^v has head_dim 32", q, k, v[..., :32])
    _refused(ValueError, r"^v has \(heads, length\)", q, k, v[:, :, :5])
    _refused(ValueError, "^k has 2 heads.*enable_gqa", q, k[:, :2], v[:, :2])
    _refused(ValueError, "does not divide", q, k[:, :3], v[:, :3], enable_gqa=True)
    for head_dim in (24, 36, 264):
        _refused(ValueError, f"^q has head_dim {head_dim}", *_qkv(1, 1, 4, head_dim))
    _refused(TypeError, "^scale must be a number", q, k, v, scale="1")
    for scale in (10**400, -1e39):
        _refused(ValueError, "^scale is too large for float32", q, k, v, scale=scale)
    for flag in ("is_causal", "enable_gqa"):
        _refused(TypeError, f"^{flag} must be True or False", q, k, v, **{flag: "no"})
    _refused(ValueError, "^k is sparse or nested", q, k.to_sparse(), v)
    _refused(ValueError, "^v is on meta", q, k, v.to("meta"))


def test_grad_may_be_required_where_none_is_recorded() -> None:
    """Under no_grad a parameter is an ordinary tensor."""
    q, k, v = _qkv(1, 2, 8, 32)
    q.requires_grad_()
    with torch.no_grad():
        assert not attention(q, k, v).requires_grad
