"""Time builds of the CPU extension, and SDPA, in turns: decode, many rows, few keys.

python experiments/cpu_builds.py THREADS BEFORE.so AFTER.so

The least of 80 calls each, in us, so that other programs matter little, and SDPA's time over each
build's. Cases are batch, heads, key heads, queries, keys, head dim.
"""

import importlib.util
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor

from flashbench.kernels.torch_attention import PARTS_OF_TORCH

CASES = [
    (1, 8, 8, 1, 512, 64),
    (1, 8, 8, 1, 512, 128),
    (1, 4, 4, 1, 4096, 128),
    (1, 4, 4, 1, 4096, 72),
    (1, 4, 4, 1, 4096, 80),
    (1, 4, 4, 1, 4096, 96),
    (1, 32, 8, 1, 512, 128),
    (1, 8, 1, 1, 1024, 64),
    (1, 8, 1, 1, 4096, 64),
    (1, 8, 8, 2, 512, 64),
    (1, 32, 8, 1, 4096, 128),
    (1, 32, 8, 1, 16384, 128),
    (4, 8, 2, 1, 16384, 64),
    (1, 32, 4, 1, 8192, 128),
    (1, 32, 32, 4, 2048, 128),
    (4, 32, 2, 1, 16384, 64),
    (64, 8, 8, 16, 256, 64),
    (1, 1, 1, 512, 512, 64),
    (1, 3, 3, 500, 500, 64),
    (1, 8, 8, 128, 128, 64),
    (1, 8, 8, 512, 512, 64),
    (1, 8, 8, 512, 512, 72),
    (1, 8, 8, 512, 512, 80),
    (2, 6, 6, 197, 197, 64),
    (1, 5, 5, 1024, 1024, 64),
    (1, 8, 8, 4096, 1, 64),
    (1, 8, 8, 4096, 4, 64),
    (1, 8, 8, 4096, 8, 64),
    (1, 8, 8, 4096, 16, 64),
    (1, 8, 8, 1024, 4, 64),
]
Call = Callable[[Tensor, Tensor, Tensor], Tensor]


def sdpa(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """torch's attention of grouped heads."""
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def attention_of(library: str, number: int) -> Call:
    """The attention of a build."""
    # A name of its own: pybind11 gives a module of the same name again, whatever its file.
    spec = importlib.util.spec_from_file_location(f"build{number}._C", library)
    assert spec is not None
    assert spec.loader is not None
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    build.bind_torch(**PARTS_OF_TORCH)
    return lambda q, k, v: build.plain_attention(q, k, v, False, False, None, True)


def main(threads: int, libraries: list[str]) -> None:
    """Print a line per case."""
    torch.set_num_threads(threads)
    calls = [sdpa, *(attention_of(path, number) for number, path in enumerate(libraries))]
    print(f"torch {torch.__version__}, {threads} thread(s): us of SDPA and of each build; ratios")
    for dtype in (torch.float32, torch.bfloat16):
        for batch, heads, kv_heads, queries, keys, dim in CASES:
            q = torch.randn(batch, heads, queries, dim, dtype=dtype)
            k = torch.randn(batch, kv_heads, keys, dim, dtype=dtype)
            v = torch.randn(batch, kv_heads, keys, dim, dtype=dtype)
            least = [float("inf")] * len(calls)
            for _ in range(80):
                for i, call in enumerate(calls):
                    start = time.perf_counter()
                    call(q, k, v)
                    least[i] = min(least[i], 1e6 * (time.perf_counter() - start))
            ratios = "".join(f"{least[0] / x:6.2f}" for x in least[1:])
            times = "".join(f"{x:9.1f}" for x in least)
            case = f"{batch},{heads},{kv_heads},{queries},{keys},{dim}"
            print(f"{str(dtype)[6:]:9}{case:18}{times}  {ratios}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
