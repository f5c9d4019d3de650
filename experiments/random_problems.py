"""Check random attention problems against float64, by the rule of every run.

python experiments/random_problems.py [COUNT] [SEED]             the output, on a GPU
python experiments/random_problems.py gradients [COUNT] [SEED]   dq, dk and dv, on a GPU or the CPU

Covers head dims, lengths, groups, masks and dtypes of all kernel families, and scales of the
output. Prints a line for each wrong result, and their count.
"""

import random
import sys
from collections.abc import Iterator

import torch
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention as sdpa

from flashbench import attention, operations
from flashbench.case import DtypeName
from flashbench.measuring.checks import WrongError, check_candidate
from flashbench.measuring.problem import Problem
from flashbench.operations.attention import truth as reference
from flashbench.operations.attention.operation import MASKS
from flashbench.operations.attention.shapes import Shape

LARGEST_SCORES = 3e8  # elements; float64 takes 2.4 GB for them
LARGEST_TENSOR = 3e7


def problems(rng: random.Random) -> Iterator[tuple[Shape, torch.dtype, str, float | None]]:
    while True:
        kv_heads, group = rng.choice([1, 2, 3, 4, 8, 16, 40]), rng.choice([1, 1, 2, 3, 4, 8])
        q_len = int(2 ** rng.uniform(0, 12))
        k_len = int(2 ** rng.uniform(0, 13.5)) if rng.random() < 0.7 else q_len
        shape = Shape(
            batch=rng.choice([1, 1, 1, 2, 3, 8, 40]),
            heads=kv_heads * group,
            kv_heads=kv_heads,
            q_len=q_len,
            k_len=k_len,
            head_dim=8 * rng.randint(4, 32),
        )
        rows = shape.batch * shape.heads * q_len
        keys = shape.batch * kv_heads * k_len
        if rows * k_len <= LARGEST_SCORES and max(rows, keys) * shape.head_dim <= LARGEST_TENSOR:
            dtype = rng.choice([torch.bfloat16, torch.float16])
            yield shape, dtype, rng.choice(MASKS), rng.choice([None, None, 0.1, 1.0])


def main(count: int, seed: int) -> None:
    torch.manual_seed(seed)
    wrong = 0
    for _, (shape, dtype, mask, scale) in zip(
        range(count), problems(random.Random(seed)), strict=False
    ):
        q, k, v = (
            torch.randn(shape.batch, heads, length, shape.head_dim, device="cuda", dtype=dtype)
            for heads, length in (
                (shape.heads, shape.q_len),
                (shape.kv_heads, shape.k_len),
                (shape.kv_heads, shape.k_len),
            )
        )
        gqa, causal = shape.heads != shape.kv_heads, mask != "full"
        if mask == "bottom_right":
            lengths = shape.q_len, shape.k_len
            ours = attention(
                q, k, v, attn_mask=causal_lower_right(*lengths), scale=scale, enable_gqa=gqa
            )
            seen = torch.ones(lengths, dtype=torch.bool, device=q.device)
            seen = seen.tril(shape.k_len - shape.q_len)
            torchs = sdpa(q, k, v, attn_mask=seen, scale=scale, enable_gqa=gqa)
        else:
            ours = attention(q, k, v, is_causal=causal, scale=scale, enable_gqa=gqa)
            torchs = sdpa(q, k, v, is_causal=causal, scale=scale, enable_gqa=gqa)
        expected = reference.attention(
            q, k, v, is_causal=causal, bottom_right=mask == "bottom_right", scale=scale
        )
        result = reference.check(ours, expected, torchs)
        if not result.correct:
            wrong += 1
            print(shape, dtype, mask, scale, result.reason, flush=True)
    print(f"{wrong} of {count} problems not right")


def gradients(count: int, seed: int) -> None:
    """Check as every launch of the operation attention-backward does."""
    on_gpu = torch.cuda.is_available()
    rng, operation = random.Random(seed), operations.named("attention-backward")
    drawn = problems(rng)
    dtypes: tuple[DtypeName, ...] = ("bf16", "fp16") if on_gpu else ("bf16", "fp16", "fp32")
    wrong = checked = 0
    while checked < count:
        shape, _, mask, _ = next(drawn)
        scores = shape.batch * shape.heads * shape.q_len * shape.k_len
        if min(shape.q_len, shape.k_len) < 2 or scores > (LARGEST_SCORES if on_gpu else 1e5):
            continue
        device = "cuda" if on_gpu else "cpu"
        case = operation.case(shape.sizes, rng.choice(dtypes), device, {"mask": mask})
        checked += 1
        with torch.no_grad():
            problem = Problem(case, seed + checked, full_check=True)
            try:
                wait = torch.cuda.synchronize if on_gpu else lambda: None
                check_candidate(problem, problem.bind(attention), wait)
            except WrongError as error:
                wrong += 1
                print(case.id, error, flush=True)
    print(f"gradients of {wrong} of {count} problems not right")


if __name__ == "__main__":
    check = gradients if "gradients" in sys.argv else main
    arguments = [int(x) for x in sys.argv[1:] if x != "gradients"]
    check(*arguments, *[3000, 1][len(arguments) :])
