"""The inputs of a case and their correct result."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from flashbench import reference
from flashbench.case import Case
from flashbench.measure.plan import derive_seed

DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}

# Query rows checked per head if not all are.
SAMPLED_ROWS = 64
# Most multiply-adds of the float64 reference on the CPU per case (some seconds); larger cases are
# checked on sampled rows.
_MAX_CPU_WORK = 1 << 34
_MAX_SCORES = 2**22  # that the math backend may write to memory


def inputs_of(case: Case, seed: int) -> tuple[tuple[Tensor, Tensor, Tensor], dict[str, Any]]:
    """q, k, v of a case, N(0, 1) and contiguous, and the keyword arguments of the call."""
    s = case.shape
    random = torch.Generator(device=case.device).manual_seed(derive_seed(seed, case.id))

    def normal(heads: int, length: int) -> Tensor:
        size = (s.batch, heads, length, s.head_dim)
        return torch.randn(size, generator=random, device=case.device).to(DTYPES[case.dtype])

    keywords: dict[str, Any] = {"is_causal": case.causal}
    if case.bottom_right:
        from torch.nn.attention.bias import causal_lower_right  # slow to import

        keywords = {"attn_mask": causal_lower_right(s.q_len, s.k_len)}
    if s.heads != s.kv_heads:
        keywords["enable_gqa"] = True
    return (
        normal(s.heads, s.q_len),
        normal(s.kv_heads, s.k_len),
        normal(s.kv_heads, s.k_len),
    ), keywords


class Problem:
    """N(0, 1) tensors q, k, v of a case, contiguous, and the float64 answer to compare with.

    `flip` changes v in place to -v, which negates the correct answer: this exposes a candidate that
    answers from memory, without another reference.
    """

    def __init__(self, case: Case, seed: int, full_check: bool) -> None:
        self.case = case
        self.inputs, self.keywords = inputs_of(case, seed)
        self.q, self.k, self.v = self.inputs
        self._original = tuple(x.clone() for x in self.inputs)
        self.sign = 1
        self._rows = self._rows_to_check(full_check, seed)
        self._expected = self._reference()
        self._sdpa = self._sdpa_output()

    @property
    def rows_checked(self) -> int:
        """Query rows compared per head; 0: all of them."""
        return 0 if self._rows is None else len(self._rows)

    def flip(self) -> None:
        """Change v to -v in place, without touching torch's version counter."""
        self.v.data.neg_()
        self.sign = -self.sign

    def unchanged(self) -> bool:
        """Whether q, k and v are unchanged, bit for bit (v up to `flip`)."""
        q, k, v = self._original
        original_v = v if self.sign > 0 else -v
        return torch.equal(self.q, q) and torch.equal(self.k, k) and torch.equal(self.v, original_v)

    def restore(self) -> None:
        """Restore the inputs after a candidate changed them."""
        for x, original in zip(self.inputs, self._original, strict=True):
            x.data.copy_(original)
        self.sign = 1

    def poison(self) -> None:
        """Leave NaN where the allocator will look first for memory of the output's size.

        malloc has many places for small blocks, so more of those are filled.
        """
        number = 3 if self.q.nbytes > 1 << 20 else 32
        stale = [torch.full_like(self.q, torch.nan) for _ in range(number)]
        del stale

    def check(self, out: Tensor, sign: int) -> reference.Accuracy:
        """Compare an output that was computed with `sign` * v, by the rule of `reference`."""
        if out.shape != self.q.shape:
            expected = tuple(self.q.shape)
            return reference.Accuracy(
                float("inf"), 0.0, f"shape {tuple(out.shape)}, expected {expected}"
            )
        if self._rows is not None and not bool(torch.isfinite(out).all()):
            return reference.Accuracy(float("inf"), 0.0, "NaN or Inf in the output")
        selected = self._select(out)
        return reference.check(selected if sign > 0 else -selected, self._expected, self._sdpa)

    def _rows_to_check(self, full: bool, seed: int) -> Tensor | None:
        shape = self.case.shape
        work = shape.batch * shape.heads * shape.q_len * shape.k_len * shape.head_dim
        if full and (self.case.device != "cpu" or work <= _MAX_CPU_WORK):
            return None
        if shape.q_len <= SAMPLED_ROWS:
            return None
        random = torch.Generator().manual_seed(derive_seed(seed, self.case.id, "rows"))
        rows = torch.randperm(shape.q_len - 1, generator=random)[: SAMPLED_ROWS - 1]
        # The last row is always among them: it ends the last, often incomplete, tile.
        return torch.cat([rows.sort().values, torch.tensor([shape.q_len - 1])])

    def _select(self, out: Tensor) -> Tensor:
        return out if self._rows is None else out[:, :, self._rows.to(out.device)]

    def _reference(self) -> Tensor:
        case = self.case
        if self._rows is None:
            return reference.attention(
                *self.inputs, is_causal=case.causal, bottom_right=case.bottom_right
            )
        if not case.causal:
            return reference.attention(self._select(self.q), self.k, self.v)
        # Row i of a causal problem is row i alone against the keys that it sees.
        offset = case.shape.k_len - case.shape.q_len if case.bottom_right else 0
        rows = []
        for row in self._rows.tolist():
            seen = slice(0, max(0, row + 1 + offset))
            rows.append(
                reference.attention(
                    self.q[:, :, row : row + 1], self.k[:, :, seen], self.v[:, :, seen]
                )
            )
        return torch.cat(rows, dim=2)

    def _sdpa_output(self) -> Tensor:
        """SDPA's output on the checked rows: by its default; of small fp32 problems by that or its
        math backend, whichever is farther from the truth.

        An error in fp32 is a few roundings, so with few numbers one implementation may be right by
        luck, and an equally exact one would then count as wrong.
        """
        default = self._select(scaled_dot_product_attention(*self.inputs, **self.keywords))
        shape = self.case.shape
        scores = shape.batch * shape.heads * shape.q_len * shape.k_len
        if self.case.dtype != "fp32" or scores > _MAX_SCORES:
            return default
        with sdpa_kernel([SDPBackend.MATH]):
            other = self._select(scaled_dot_product_attention(*self.inputs, **self.keywords))
        return max(default, other, key=lambda out: (out - self._expected).abs().max().item())
