"""Small problems for compute-sanitizer; run by test_sanitizer.py in a process of its own.

Inputs are made on the CPU and copied, so that only our kernel has to be watched.
"""

from dataclasses import replace

import torch
from torch.nn.attention.bias import CausalVariant

from flashbench.kernels import kernel_call
from flashbench.kernels.fp8 import attention_e4m3, quantize_e4m3
from flashbench.kernels.scoring import Scoring
from flashbench.kernels.torch_attention import _C, attention

CASES = [
    # batch, heads, kv heads, q_len, k_len, head_dim; csrc/cuda/families.h and the launch.h of
    # each family say which kernel few, some and many tiles have
    (1, 1, 1, 1, 1, 32),
    (2, 6, 3, 3, 4, 40),
    (2, 6, 3, 5, 7, 128),
    (2, 6, 3, 2, 13, 200),
    (1, 2, 1, 130, 141, 64),
    (1, 270, 135, 65, 70, 64),
    (1, 2, 2, 70, 65, 72),
    (1, 270, 270, 65, 70, 96),
    (1, 2, 2, 70, 150, 104),
    (1, 2, 2, 70, 65, 192),
    (1, 2, 2, 70, 65, 256),
    (1, 20, 20, 203, 141, 64),
    (1, 2, 1, 130, 300, 64),
    (1, 70, 70, 70, 290, 64),
    (1, 2, 2, 70, 330, 104),
    (1, 40, 40, 100, 300, 128),
    (1, 140, 140, 65, 100, 128),
    (1, 45, 45, 203, 1030, 64),
    (1, 140, 70, 200, 330, 128),
    (1, 70, 70, 65, 150, 192),
    (1, 70, 70, 65, 150, 256),
    (1, 8, 2, 1, 700, 72),
    (1, 8, 2, 1, 600, 64),
    (1, 10, 2, 5, 1100, 128),
    (1, 8, 2, 12, 1100, 128),
    (1, 8, 2, 7, 1100, 64),
    (1, 8, 2, 3, 600, 200),
    (70, 8, 2, 1, 70, 128),
    (1, 4, 1, 1, 30000, 32),
    (1, 24, 8, 16, 6000, 128),
    (1, 2, 1, 70, 8300, 64),
    (1, 2, 2, 70, 8300, 88),
    (1, 2, 2, 70, 1100, 256),
    (1, 70, 70, 65, 300, 72),
    (1, 70, 70, 65, 150, 136),
    (1, 2, 2, 70, 1100, 216),
    (1, 6, 2, 70, 4200, 64),
    (1, 6, 2, 70, 4200, 104),
    (1, 17, 17, 40, 8300, 64),
    (1, 70, 70, 200, 900, 104),
    (1, 67, 67, 200, 900, 216),
    (1, 132, 66, 200, 300, 104),
    (1, 132, 132, 200, 300, 136),
    (1, 270, 135, 300, 300, 80),
    (3, 60, 60, 197, 197, 128),
    (1, 200, 200, 250, 250, 256),
]


BOTTOM_RIGHT = {"attn_mask": CausalVariant.LOWER_RIGHT}

# heads, kv heads, q_len, k_len, head_dim; many heads for tiles beyond one round over the GPU.
E4M3_CASES = [
    (1, 1, 1, 1, 64),
    (2, 1, 130, 300, 40),
    (2, 2, 300, 141, 128),
    (140, 70, 200, 150, 64),
]


def e4m3() -> None:
    """Quantised on the CPU, like the other inputs."""
    for heads, kv_heads, q_len, k_len, head_dim in E4M3_CASES:
        q = torch.randn(1, heads, q_len, head_dim, dtype=torch.bfloat16)
        k, v = torch.randn(2, 1, kv_heads, k_len, head_dim, dtype=torch.bfloat16)
        k[0, 0, k_len // 2, 3] = float("nan")
        quantized = quantize_e4m3(q, k, v)
        for name in ("q", "k", "v", "q_scale", "k_scale", "v_scale"):
            quantized = replace(quantized, **{name: getattr(quantized, name).cuda()})
        for mask in ({}, {"is_causal": True}, BOTTOM_RIGHT):
            attention_e4m3(quantized, **mask)


# The tiles of csrc/cuda/*/backward_launch.h, with last tiles and several blocks; on Hopper with
# groups that blocks share and without.
GRADIENT_CASES = [
    (heads, kv_heads, 200, 290, head_dim)
    for head_dim in (32, 64, 80, 96, 112, 128, 160, 192, 256)
    for heads, kv_heads in ((4, 2), (1, 1))
]


def gradients() -> None:
    """Forward and backward, in any order of blocks and in turns."""
    for heads, kv_heads, q_len, k_len, head_dim in GRADIENT_CASES:
        q, out, dout = torch.randn(3, 1, heads, q_len, head_dim, dtype=torch.bfloat16).cuda()
        k, v = torch.randn(2, 1, kv_heads, k_len, head_dim, dtype=torch.bfloat16).cuda()
        for scoring in (Scoring(False, False, None), Scoring(True, True, None)):
            for deterministic in (False, True):
                torch.use_deterministic_algorithms(deterministic)
                _, lse = kernel_call.forward(q, k, v, scoring, with_lse=True)
                assert lse is not None
                # initcheck does not see what the copy engine stores, so `out` is not the forward's.
                kernel_call.backward((q, k, v, out, lse), dout, scoring)
    torch.use_deterministic_algorithms(False)


def main() -> None:
    torch.manual_seed(0)
    for dtype in (torch.float16, torch.bfloat16):
        for batch, heads, kv_heads, q_len, k_len, head_dim in CASES:
            for mask in ({}, {"is_causal": True}, BOTTOM_RIGHT):
                if mask == BOTTOM_RIGHT and dtype == torch.float16:
                    continue  # the same code, and these tools are slow
                q = torch.randn(batch, heads, q_len, head_dim, dtype=dtype).cuda()
                k = torch.randn(batch, kv_heads, k_len, head_dim, dtype=dtype)
                k[0, 0, k_len // 2, 3] = float("nan")
                # Values with a stride of 2 take the element-wise loads, in a poisoned tile.
                v = torch.randn(batch, kv_heads, k_len, head_dim, 2, dtype=dtype)
                v[0, 0, k_len // 2, 3] = float("inf")
                options = {**mask, "enable_gqa": heads != kv_heads}
                attention(q, k.cuda(), v.cuda()[..., 0], **options)
                if mask != BOTTOM_RIGHT:
                    attention(q, k.cuda(), k.cuda(), **options)
    if _C.has_cuda_e4m3() and torch.cuda.get_device_capability() == (9, 0):
        e4m3()
    gradients()
    if torch.cuda.get_device_capability() == (9, 0):
        _C.cuda_take_sm80_gradients(True)
        gradients()
    torch.cuda.synchronize()
    print("done")


if __name__ == "__main__":
    main()
