"""How close correct kernels come to the error rule's bound, and what late bases add.

python experiments/error_of_late_bases.py [PROBLEMS] [SEED]

A kernel is emulated on the CPU by what rounds: scores, sums and outputs in float32, exponentials
relative to a base, probabilities and the final output in the dtype. The base of a row either
follows its largest score at every block of keys, so that the largest probability is exactly 1, or
moves late, only when that score has grown by 8 powers of two, so that the largest probability is
rounded too. For each shape and scale: the largest share of the rule's bound, and in how many of
PROBLEMS a kernel's error is more than twice that of a baseline with blocks of 128 keys.
"""

import sys

import torch
from torch import Tensor

from flashbench.operations.error_rule import check

LOG2E = 1.4426950408889634
SLACK = 8.0
# Batch, heads, kv heads, queries, keys, head dim, dtype, causal.
SHAPES = (
    (2, 2, 2, 197, 257, 256, torch.bfloat16, False),
    (1, 8, 2, 2, 391, 232, torch.bfloat16, False),
    (1, 1, 1, 513, 257, 208, torch.float16, True),
)
KERNELS = {"16 keys": (16, 0.0), "64 keys": (64, 0.0), "64 keys, late": (64, SLACK)}
BASELINE = (128, 0.0)


def emulated(
    q: Tensor, k: Tensor, v: Tensor, seen: Tensor, scale: float, keys: int, slack: float
) -> Tensor:
    """Attention of (..., length, head dim) by blocks of `keys`; seen: (q_len, k_len)."""
    scores = (q.float() @ k.float().mT) * (scale * LOG2E)
    scores = scores.masked_fill(~seen, -torch.inf)
    base = torch.full_like(scores[..., :1], -torch.inf)
    total = torch.zeros_like(base)
    out = torch.zeros(*scores.shape[:-1], v.shape[-1])
    for first in range(0, scores.shape[-1], keys):
        block = scores[..., first : first + keys]
        largest = block.amax(-1, keepdim=True)
        moved = torch.where(largest > base + slack, largest, base)
        finite = torch.where(moved.isinf(), 0.0, moved)
        rescale = torch.exp2(base - finite)
        weights = torch.exp2(block - finite)
        total = total * rescale + weights.sum(-1, keepdim=True)
        rounded = weights.to(v.dtype).float()
        out = out * rescale + rounded @ v[..., first : first + keys, :].float()
        base = moved
    return (out / total).to(v.dtype)


def main(count: int, seed: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    for batch, heads, kv_heads, q_len, k_len, head_dim, dtype, causal in SHAPES:
        seen = torch.ones(q_len, k_len, dtype=torch.bool)
        seen = seen.tril() if causal else seen
        for scale in (head_dim**-0.5, 0.1, 1.0):
            beyond = dict.fromkeys(KERNELS, 0)
            most = dict.fromkeys(KERNELS, 0.0)
            for _ in range(count):
                q = torch.randn(batch, heads, q_len, head_dim, dtype=dtype)
                k, v = torch.randn(2, batch, kv_heads, k_len, head_dim, dtype=dtype)
                k, v = (x.repeat_interleave(heads // kv_heads, 1) for x in (k, v))
                exact = (q.double() @ k.double().mT * scale).masked_fill(~seen, -torch.inf)
                expected = exact.softmax(-1) @ v.double()
                baseline = emulated(q, k, v, seen, scale, *BASELINE)
                baseline_error = float((baseline - expected).abs().max())
                for name, kernel in KERNELS.items():
                    result = check(emulated(q, k, v, seen, scale, *kernel), expected, baseline)
                    beyond[name] += result.max_error > 2 * baseline_error
                    most[name] = max(most[name], result.max_error / result.bound)
            shape = f"{batch},{heads} ({kv_heads}),{q_len} x {k_len},{head_dim}"
            for name in KERNELS:
                print(
                    f"{shape} {'causal' if causal else 'full'} {dtype} scale {scale:.3g}, {name}: "
                    f"at most {most[name]:.2f} of the bound, {beyond[name]} of {count} beyond "
                    "twice the baseline's error",
                    flush=True,
                )


if __name__ == "__main__":
    main(*(int(word) for word in (sys.argv[1:] + ["100", "1"][len(sys.argv) - 1 :])[:2]))
