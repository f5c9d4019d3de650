"""Candidates: what a flag may say, and by what a loaded one is known again."""

import pytest

from flashbench.candidates import load, parse_candidate
from flashbench.errors import InvalidInputError, NotMeasuredError
from flashbench.runfile import BuildIdentity


@pytest.mark.parametrize(
    ("text", "name", "spec"),
    [
        ("flashbench", "flashbench", "flashbench"),
        ("package.module:function", "function", "package.module:function"),
        ("mine=package:function", "mine", "package:function"),
        ("before=flashbench", "before", "flashbench"),
        ("package.module:sdpa", "package.module.sdpa", "package.module:sdpa"),
    ],
)
def test_forms_of_a_candidate(text: str, name: str, spec: str) -> None:
    """A candidate is named by the flag, or else after its function."""
    candidate = parse_candidate(text)
    assert (candidate.name, candidate.spec, candidate.baseline) == (name, spec, False)


@pytest.mark.parametrize("text", ["", "mine", "a:b:c", "a=b", "a=os:system; x", "../a:f", " =m:f"])
def test_other_forms_are_refused(text: str) -> None:
    """Nothing but a dotted module and a function in it is taken."""
    with pytest.raises(InvalidInputError):
        parse_candidate(text)


@pytest.mark.parametrize("text", ["sdpa=m:f", "sdpa:math=m:f", "sdpa:anything=flashbench"])
def test_no_candidate_has_the_name_of_a_baseline(text: str) -> None:
    """Results are kept by name: it would be read as SDPA, and replace its times."""
    with pytest.raises(InvalidInputError, match="is taken by the baseline"):
        parse_candidate(text)


def test_candidate_is_known_again_by_its_module() -> None:
    """By its source, or by its library; modules built into Python have no file."""
    source = load(parse_candidate("flashbench.operations.attention.shapes:parse_shape"))[1]
    assert (len(source.source_hash), source.library_hash) == (64, "")
    library = load(parse_candidate("msgspec._core:Struct"))[1]
    assert (library.source_hash, len(library.library_hash)) == ("", 64)
    assert load(parse_candidate("sys:intern"))[1] == BuildIdentity()


def test_candidate_that_does_not_load_says_why() -> None:
    """A module or function that is not there is one line."""
    with pytest.raises(NotMeasuredError, match="nosuch cannot be imported"):
        load(parse_candidate("nosuch:f"))
    with pytest.raises(NotMeasuredError, match="os has no function 'nosuch'"):
        load(parse_candidate("os:nosuch"))
