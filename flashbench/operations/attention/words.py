"""Cases of attention in words, for tables, figures and pages."""

from collections.abc import Sequence

from flashbench.case import Case
from flashbench.operations.attention.shapes import Shape
from flashbench.operations.operation import listed, span

_MASKS = {"full": "no mask", "causal": "causal mask", "bottom_right": "causal mask, bottom right"}
CAPTION = "A row is a shape: batch (b), heads (h), kv heads (g), queries (q), keys (k)."


def mask(case: Case) -> str:
    """The mask, as words."""
    return case.options["mask"].replace("_", " ")


def in_words(case: Case) -> str:
    """`batch 1, 8 heads, 512 tokens, head dim 64, bf16, causal mask`."""
    shape = Shape(**case.sizes)
    heads = _count(shape.heads, "head")
    if shape.kv_heads != shape.heads:
        heads += f" on {_count(shape.kv_heads, 'key head')}"
    length = _count(shape.q_len, "token")
    if shape.k_len != shape.q_len:
        length = f"{_count(shape.q_len, 'query', 'queries')}, {_count(shape.k_len, 'key')}"
    parts = [f"batch {shape.batch}", heads, length, f"head dim {shape.head_dim}"]
    words = [*parts, case.dtype, _MASKS[case.options["mask"]]]
    return ", ".join([*words, *_layout(case, "{} in memory")])


def grid_in_words(cases: Sequence[Case]) -> str:
    """The ranges of a grid's sizes, its dtypes and masks."""
    shapes = [Shape(**case.sizes) for case in cases]
    return "; ".join(
        [
            span({s.batch for s in shapes}, "batch"),
            span({s.heads for s in shapes}, "heads"),
            span({s.q_len for s in shapes} | {s.k_len for s in shapes}, "lengths"),
            f"head dim {listed([str(d) for d in sorted({s.head_dim for s in shapes})])}",
            listed(sorted({case.dtype for case in cases})),
            f"masks: {listed(sorted({mask(case) for case in cases}))}",
            *sorted({text for case in cases for text in _layout(case, "{} in memory")}),
        ]
    )


def family(case: Case, *, strict: bool) -> tuple[str, ...]:
    """Cases that differ in length alone, or in length and batch: with other heads too, a line
    along the length would rise and fall with the work."""
    s = Shape(**case.sizes)
    queries = "" if s.q_len == s.k_len else f"q{s.q_len}" if s.q_len < 32 else "queries < keys"
    heads = f"b{s.batch}-" * strict + f"h{s.heads}" + f"-g{s.kv_heads}" * (s.kv_heads != s.heads)
    alike = " ".join([mask(case), *_layout(case)])
    return alike, f"d{s.head_dim}", queries, heads


def _layout(case: Case, text: str = "{}") -> list[str]:
    """Nothing for the usual one."""
    return [text.format(case.options["layout"])] if "layout" in case.options else []


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
