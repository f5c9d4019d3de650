"""Random attention problems of the kinds that models have, for random_speeds.py.

Kinds: decode, chunk (a prompt's next part), dim (any head dim), few (few heads), short.
"""

import math
import random
from dataclasses import dataclass

from flashbench.operations.attention.shapes import Shape

KINDS = ("decode", "decode", "chunk", "dim", "dim", "few", "short")


@dataclass(frozen=True)
class Limits:
    """What a device computes in a moment."""

    elements: float  # of Q, of K and V together
    products: float  # additions and multiplications, without a mask


LIMITS = {"cuda": Limits(elements=1.5e9, products=4e12), "cpu": Limits(elements=1e7, products=1e9)}


@dataclass(frozen=True)
class Problem:
    kind: str
    shape: Shape
    mask: str  # full, causal or bottom_right

    def fits(self, limits: Limits) -> bool:
        """Whether there are as many keys as queries, or more, and it is not too large."""
        shape = self.shape
        keys = shape.batch * shape.kv_heads * shape.k_len * shape.head_dim
        rows = shape.batch * shape.heads * shape.q_len * shape.head_dim
        return (
            shape.k_len >= shape.q_len
            and max(rows, 2 * keys) <= limits.elements
            and 4 * rows * shape.k_len <= limits.products
        )


def between(rng: random.Random, low: int, high: int) -> int:
    """Evenly by the logarithm."""
    return round(low * math.exp(math.log(high / low) * rng.random()))


def random_problem(rng: random.Random, kind: str) -> Problem:
    """One of a kind; not all fit a device."""
    dim = rng.choice([64, 128, 256])
    if kind == "decode":
        group, kv_heads = rng.choice([1, 2, 4, 8, 16]), rng.choice([1, 2, 4, 8, 16, 32])
        queries = rng.choice([1, 1, 1, 1, 2, 3, 4, 8, 16])
        batch = between(rng, 1, 256)
        keys = rng.choice([between(rng, 1024, 131072), 1 << rng.randrange(10, 18)])
        mask = "full" if queries == 1 else rng.choice(["full", "bottom_right"])
        return Problem(kind, Shape(batch, kv_heads * group, kv_heads, queries, keys, dim), mask)
    if kind == "chunk":
        group, kv_heads = rng.choice([1, 2, 4, 8]), rng.choice([1, 2, 4, 8, 16])
        batch = rng.choice([1, 1, 2, 4])
        queries = rng.choice([64, 128, 256, 512, 1024, between(rng, 64, 1024)])
        keys = rng.choice([4096, 8192, 16384, 32768, between(rng, 4096, 32768)])
        dim = rng.choice([64, 128, 128, 256])
        mask = rng.choice(["full", "causal", "bottom_right"])
        return Problem(kind, Shape(batch, kv_heads * group, kv_heads, queries, keys, dim), mask)
    mask = rng.choice(["full", "causal"])
    if kind == "dim":
        length = rng.choice([1024, 2048, 4096, 8192, 16384, between(rng, 1024, 16384)])
        heads = rng.choice([4, 8, 12, 16, 24, 32])
        batch = max(1, rng.choice([1, 2, 4]) * 2048 // length)
        dim = 8 * rng.randrange(4, 33)
        return Problem(kind, Shape(batch, heads, heads, length, length, dim), mask)
    if kind == "few":
        length, heads = between(rng, 1024, 16384), rng.choice([1, 2, 3, 4, 5, 6, 8])
        dim = rng.choice([64, 96, 128, 192, 256])
        return Problem(kind, Shape(1, heads, heads, length, length, dim), mask)
    length = rng.choice([64, 77, 128, 197, 256, 384, 512, between(rng, 32, 1024)])
    group, heads = rng.choice([1, 1, 1, 4]), rng.choice([8, 12, 16, 32])
    dim = rng.choice([32, 40, 64, 64, 80, 96, 128, 128, 160, 256])
    batch = between(rng, 4, 128)
    return Problem(kind, Shape(batch, heads, heads // group, length, length, dim), mask)
