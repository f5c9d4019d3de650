"""Cases, their names, their counts and the shapes read from flags."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashbench.callables import LAYOUTS
from flashbench.case import DTYPES, Case
from flashbench.errors import InvalidInputError
from flashbench.operations import parse_case
from flashbench.operations.attention.operation import attention_case, grid, mask_of, shape_of
from flashbench.operations.attention.shapes import PRESETS, Shape, parse_shape
from flashbench.operations.case_document import decode_case, encode_case

small = st.integers(1, 9)
shapes = st.builds(lambda b, g, ratio, q, k, d: Shape(b, g * ratio, g, q, k, d), *([small] * 6))
masks = st.sampled_from([(False, False), (True, False), (True, True)])
cases = st.builds(
    lambda shape, dtype, m, layout: attention_case(shape, dtype, m[0], "cpu", m[1], layout),
    shapes,
    st.sampled_from(DTYPES),
    masks,
    st.sampled_from(LAYOUTS),
)


@given(cases)
def test_pairs_are_counted_exactly(case: Case) -> None:
    """The exponentials equal the count of unmasked (query, key) pairs, one by one."""
    s, mask = shape_of(case), mask_of(case)
    offset = s.k_len - s.q_len if mask == "bottom_right" else 0
    seen = sum(mask == "full" or j <= i + offset for i in range(s.q_len) for j in range(s.k_len))
    assert case.exponentials == s.batch * s.heads * seen
    assert case.flops == 4 * s.head_dim * case.exponentials


@given(cases, cases)
def test_ids_tell_cases_apart(a: Case, b: Case) -> None:
    """Two cases have the same id exactly when they are equal."""
    assert (a.id == b.id) == (a == b)


@given(cases)
def test_a_case_is_read_back_from_its_id_and_from_json(case: Case) -> None:
    """Ids and files name every case; a file of other masks does not speak of the alignment."""
    assert parse_case(case.id) == case
    encoded = msgspec.json.encode(case, enc_hook=encode_case)
    assert msgspec.json.decode(encoded, type=Case, dec_hook=decode_case) == case
    assert (b"bottom_right" in encoded) == (mask_of(case) == "bottom_right")


def test_only_causal_cases_are_aligned() -> None:
    """A full case at the bottom right would be a second name of the same case."""
    with pytest.raises(ValueError, match="causal"):
        attention_case(Shape(1, 1, 1, 2, 3, 32), "fp32", False, "cpu", True)


@given(shapes)
def test_a_shape_is_read_back_from_a_case_id(shape: Shape) -> None:
    """The shape part of an id is accepted by --shape and means the same shape."""
    text = attention_case(shape, "fp16", True, "cpu").id.removesuffix("-fp16-causal-cpu")
    assert parse_shape(text) == shape


def test_comma_form_is_batch_heads_length_head_dim() -> None:
    """`1,8,512,64` is square self-attention with as many kv heads as heads."""
    assert parse_shape("1,8,512,64") == Shape(1, 8, 8, 512, 512, 64)


@pytest.mark.parametrize(
    "text", ["", "1,2,3", "1,8,512,64,9", "a,b,c,d", "1,8,0,64", "b1-h8-q5", "b1-b2-h8-q5-d64",
             "b1-h8-g3-q5-d64", "b1-h8-q5-d64-x", "-1,8,512,64", "b1-h8-q512-d64\n"]
)  # fmt: skip
def test_what_is_no_shape_is_refused_with_the_forms(text: str) -> None:
    """A text that is no shape is an InvalidInputError that shows how to write one."""
    with pytest.raises(InvalidInputError, match="1,8,512,64"):
        parse_shape(text)


def test_models_have_what_square_shapes_lack() -> None:
    """The preset `models` has grouped heads, other lengths of keys, and no case twice."""
    models = PRESETS["models"]
    assert any(shape.kv_heads < shape.heads for shape in models)
    assert any(shape.q_len == 1 < shape.k_len for shape in models)
    assert any(shape.q_len > shape.k_len for shape in models)
    assert len(set(models)) == len(models)


def test_grid_has_every_combination_once() -> None:
    """The grid is the product of shapes, dtypes and masks without repeats."""
    twice = (*PRESETS["tiny"], *PRESETS["tiny"])
    found = grid(twice, ["fp16", "bf16"], [False, True], "cpu")
    assert len(found) == len({case.id for case in found}) == 2 * 2 * 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1,x,3,4", "'x' is not a number"),
        ("1,2,3", "3 numbers, not 4"),
        ("0,1,1,1", "'0' is not a number from 1"),
        ("1,2,3,99999999999999999999", "'99999999999999999999' is not a number"),
        ("b1-h2-q3", "d is missing"),
        ("b1-b1-h2-q3-d4", "b appears twice"),
        ("b1-h2-z3-d4", "'z3' is not one of b, h, g, q, k, d followed by a number"),
        ("b1-h3-g2-q4-d4", "heads (3) must be a multiple of kv heads (2)"),
        ("", "'' is not one of"),
    ],
)
def test_what_is_wrong_with_a_shape_is_said_in_words(text: str, words: str) -> None:
    """What does not fit is named, without Python's words for it."""
    with pytest.raises(InvalidInputError) as caught:
        parse_shape(text)
    assert words in str(caught.value)
    assert "int()" not in str(caught.value)
    assert "unpack" not in str(caught.value)
