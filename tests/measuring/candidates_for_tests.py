"""Candidates that are right, wrong, broken or dishonest, for the tests of measuring."""

import ctypes
import os
import sys
import time
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

_cache: dict[int, Tensor] = {}
_memory: dict[torch.Size, Tensor] = {}
_calls = 0


def correct(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
    """The textbook formula in float32, which is not how SDPA computes it."""
    weights = q.float() @ k.float().transpose(-1, -2) / q.shape[-1] ** 0.5
    if keywords.get("is_causal"):
        hidden = torch.ones(weights.shape[-2:], dtype=torch.bool).triu(1)
        weights = weights.masked_fill(hidden, float("-inf"))
    return (weights.softmax(-1) @ v.float()).to(q.dtype)


def wrong(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
    return correct(q, k, v, **keywords) * 1.1


def wrong_when_causal(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
    return correct(q, k, v)


def not_a_number(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
    return torch.full_like(q, torch.nan)


def wrong_shape(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
    return correct(q, k, v, **keywords)[:, :, :1]


def raises(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
    raise RuntimeError("first line\nsecond line")


def says_where_it_is(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
    raise RuntimeError(f"{os.getpid()} {mmap_address():x}")


def mmap_address() -> int:
    """Where this process maps what it maps now."""
    return torch.empty(1 << 25, dtype=torch.uint8).data_ptr()


def finds_highest_precision(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
    assert torch.get_float32_matmul_precision() == "highest"
    return correct(q, k, v, **keywords)


def exits_from_python(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
    sys.exit(7)


def declines(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
    raise NotImplementedError("only on Sundays")


def hangs(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
    time.sleep(3600)
    return q


def aborts(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
    os.abort()


def reads_null(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
    ctypes.string_at(0)
    return q


def leaves(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
    print("last words", file=sys.stderr, flush=True)
    os._exit(3)


def aborts_when_timed(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
    """Passes the check and then crashes."""
    global _calls
    _calls += 1
    if _calls > 10:
        os.abort()
    return correct(q, k, v, **keywords)


def raises_when_timed(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
    global _calls
    _calls += 1
    if _calls > 10:
        raise RuntimeError("tired")
    return correct(q, k, v, **keywords)


def aborts_once(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
    """Crashes unless the file named by the environment is there already."""
    marker = Path(os.environ["FLASHBENCH_TEST_MARKER"])
    if not marker.exists():
        marker.touch()
        os.abort()
    return correct(q, k, v, **keywords)


def takes_all_memory(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
    return torch.empty(1 << 60, dtype=torch.uint8)


def chatters(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
    print('{"type": "done"}\n' * 20)
    print("\xff" * 1000, file=sys.stderr)
    return correct(q, k, v, **keywords)


def slow(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
    time.sleep(0.02)
    return correct(q, k, v, **keywords)


def changes_inputs(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
    out = correct(q, k, v, **keywords)
    q.mul_(2)
    return out


def answers_from_cache(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
    """Recognises its inputs by their addresses."""
    key = hash((q.data_ptr(), k.data_ptr(), v.data_ptr(), keywords.get("is_causal")))
    if key not in _cache:
        _cache[key] = correct(q, k, v, **keywords)
    return _cache[key].clone()


def answers_from_versioned_cache(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
    """Recognises its inputs by their addresses and torch's version counters."""
    key = hash((q.data_ptr(), v.data_ptr(), v._version, keywords.get("is_causal")))
    if key not in _cache:
        _cache[key] = correct(q, k, v, **keywords)
    return _cache[key].clone()


def reuses_memory(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
    """Writes every answer to the same place."""
    out = _memory.setdefault(q.shape, torch.empty_like(q))
    return out.copy_(correct(q, k, v, **keywords))


def returns_stale_memory(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
    """Hopes that the allocator gives it the memory of another candidate's correct answer."""
    return torch.empty_like(q)


def answers_in_place(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
    return q.data.copy_(correct(q, k, v, **keywords))


class LazyTensor(Tensor):
    pass


def returns_subclass(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
    return correct(q, k, v, **keywords).as_subclass(LazyTensor)


def returns_negated_view(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
    return torch._neg_view(-correct(q, k, v, **keywords))


def lazy_when_timed(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
    """Honest while it is checked, then it stops working."""
    global _calls
    _calls += 1
    return correct(q, k, v, **keywords) if _calls < 6 else torch.zeros_like(q)


def subclass_when_timed(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
    """Right at every call, but of a kind that could compute when it is looked at."""
    global _calls
    _calls += 1
    out = correct(q, k, v, **keywords)
    return out if _calls < 6 else out.as_subclass(LazyTensor)


def falls_back(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
    return scaled_dot_product_attention(q, k, v, is_causal=bool(keywords.get("is_causal")))


def changes_threads(q: Tensor, k: Tensor, v: Tensor, **keywords: bool) -> Tensor:
    """Slows down the candidate timed after it."""
    torch.set_num_threads(3)
    return correct(q, k, v, **keywords)
