"""Names of cases on pages: once in words, and short everywhere else."""

from functools import cache

from flashbench.case import Case, parse_case
from flashbench.errors import InvalidInputError

_MASKS = {"full": "no mask", "causal": "causal mask", "bottom_right": "causal mask, bottom right"}


@cache
def known_case(name: str) -> Case | None:
    """The case with this id; None for other tools' names."""
    try:
        return parse_case(name)
    except (InvalidInputError, ValueError):
        return None


@cache
def in_words(name: str) -> str:
    """`batch 1, 8 heads, 512 tokens, head dim 64, bf16, causal mask`; "" for other tools' names."""
    case = known_case(name)
    if case is None:
        return ""
    shape = case.shape
    heads = _count(shape.heads, "head")
    if shape.kv_heads != shape.heads:
        heads += f" on {_count(shape.kv_heads, 'key head')}"
    length = _count(shape.q_len, "token")
    if shape.k_len != shape.q_len:
        length = f"{_count(shape.q_len, 'query', 'queries')}, {_count(shape.k_len, 'key')}"
    parts = [f"batch {shape.batch}", heads, length, f"head dim {shape.head_dim}"]
    return ", ".join([*parts, case.dtype, _MASKS[case.mask]])


@cache
def in_short(name: str) -> str:
    """`1,8,512,64 bf16 causal`: batch, heads, tokens and head dim as in the flag `--shape`, without
    the device. Other tools' names are unchanged."""
    case = known_case(name)
    if case is None:
        return name
    shape = case.shape
    text = f"{shape.batch},{shape.heads},{shape.q_len},{shape.head_dim}"
    if (shape.kv_heads, shape.k_len) != (shape.heads, shape.q_len):
        text = name.rsplit("-", 3)[0]
    return f"{text} {case.dtype} {case.mask.replace('_', ' ')}"


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
