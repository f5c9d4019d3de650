"""flashbench.attention as its users meet it: what it means and what it refuses."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from flashbench import attention


def _qkv(*shape: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(shape, generator=generator).to(dtype) for _ in range(3)]


@pytest.mark.parametrize("causal", [False, True])
def test_means_what_sdpa_means(causal: bool) -> None:
    """Same arguments, same result as SDPA, with a scale and grouped heads."""
    q, k, v = _qkv(2, 8, 40, 64)
    k, v = k[:, :2], v[:, :2]
    arguments = {"is_causal": causal, "scale": 0.3, "enable_gqa": True}
    expected = scaled_dot_product_attention(q, k, v, **arguments)
    torch.testing.assert_close(attention(q, k, v, **arguments), expected, rtol=1e-4, atol=1e-5)


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
    _refused(ValueError, "^q requires grad", q.clone().requires_grad_(), k, v)
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
