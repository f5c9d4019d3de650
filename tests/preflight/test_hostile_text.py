"""Nonsensical text costs the checks time linear in its length."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flashbench.preflight import Finding
from flashbench.preflight.source.constants import macro_against_constant
from flashbench.preflight.source.headers import missing_header
from flashbench.preflight.source.instantiations import missing_instantiation
from flashbench.preflight.source.tree import SourceTree, read_tree


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (macro_against_constant, "#define X 1\n" + "const " * 20_000),
        (missing_instantiation, "template <typename T> " * 8_000),
        (missing_header, 'R"(' * 60_000),
        (missing_header, "/* " * 60_000),
    ],
    ids=["const", "template", "raw string", "comment"],
)
def test_repeated_text_is_read_once(
    tmp_path: Path, check: Callable[[SourceTree], Iterator[Finding]], text: str
) -> None:
    """Quadratic time would be 9 s and more."""
    (tmp_path / "hostile.cu").write_text(text)
    tree = read_tree(tmp_path)
    before = time.process_time()
    assert list(check(tree)) == []
    assert time.process_time() - before < 4
