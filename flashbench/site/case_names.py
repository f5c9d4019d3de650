"""Names of cases on pages: once in words, and short everywhere else."""

from functools import cache

from flashbench import operations
from flashbench.baseline_names import title
from flashbench.case import Case


@cache
def known_case(name: str) -> Case | None:
    """The case with this id; None for other tools' names."""
    return operations.read_case(name)


@cache
def baseline_of(name: str) -> str:
    """What tables call the baseline of this case; "" for other tools' names."""
    case = known_case(name)
    return "" if case is None else title(operations.of(case).baseline)


@cache
def in_words(name: str) -> str:
    """`batch 1, 8 heads, 512 tokens, head dim 64, bf16, causal mask`; "" for other tools' names."""
    case = known_case(name)
    return "" if case is None else operations.of(case).in_words(case)


@cache
def in_short(name: str) -> str:
    """The id without its device, `b1-h8-q512-d64-bf16-causal`. Other tools' names are unchanged."""
    case = known_case(name)
    return name if case is None else name.removesuffix(f"-{case.device}")
