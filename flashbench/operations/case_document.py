"""A case as a JSON object, in run files, profiles and messages to workers.

Cases of attention are written as they were before there were other operations.
"""

import re

import msgspec

from flashbench import operations
from flashbench.callables import LAYOUTS
from flashbench.case import Case, DtypeName
from flashbench.errors import InvalidInputError
from flashbench.operations.attention.operation import ATTENTION, attention_case, layout_of, mask_of
from flashbench.operations.attention.shapes import Shape
from flashbench.operations.operation import case_id

_NAME = re.compile(r"[A-Za-z_][\w.:-]{0,99}")
_WORD = re.compile(r"[a-z_][a-z0-9_]{0,39}")
_MOST = 2**53


class _OfAttention(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """causal: aligned at the top left, or with `bottom_right` there."""

    shape: Shape
    dtype: DtypeName
    causal: bool
    device: str
    bottom_right: bool = False
    layout: str = LAYOUTS[0]

    def __post_init__(self) -> None:
        if self.bottom_right and not self.causal:
            raise ValueError("bottom_right is for causal cases alone")


class _Any(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """With the counts, to be read without the operation's code."""

    operation: str
    sizes: dict[str, int]
    dtype: DtypeName
    device: str
    options: dict[str, str] = {}
    flops: int = 0
    bytes: int = 0
    exponentials: int = 0

    def __post_init__(self) -> None:
        words = [*self.sizes, *self.options, *self.options.values(), self.device]
        if not _NAME.fullmatch(self.operation) or not all(map(_WORD.fullmatch, words)):
            raise ValueError("a name is not one of letters, digits and _")
        if not all(0 < size < _MOST for size in self.sizes.values()):
            raise ValueError("a size is not a possible number")
        if min(self.flops, self.bytes, self.exponentials) < 0:
            raise ValueError("a count is below 0")


_OF_ATTENTION = msgspec.json.Decoder(_OfAttention)
_ANY = msgspec.json.Decoder(_Any)


def encode_case(value: object) -> object:
    """For msgspec's `enc_hook`: what it writes in place of a case."""
    if not isinstance(value, Case):
        raise NotImplementedError(type(value).__name__)
    if value.operation == ATTENTION.name:
        mask = mask_of(value)
        shape, causal = Shape(**value.sizes), mask != "full"
        place = value.device, mask == "bottom_right", layout_of(value)
        return _OfAttention(shape, value.dtype, causal, *place)
    return _Any(
        operation=value.operation,
        sizes=value.sizes,
        dtype=value.dtype,
        device=value.device,
        options=value.options,
        flops=value.flops,
        bytes=value.bytes,
        exponentials=value.exponentials,
    )


def decode_case(kind: type, document: object) -> Case:
    """For msgspec's `dec_hook`: the case of a JSON object. ValueError for one that is none."""
    if kind is not Case:
        raise NotImplementedError(kind.__name__)
    try:
        return _decoded(document)
    except msgspec.ValidationError as error:  # as any other error, so that its place is added
        raise ValueError(str(error).replace(" - at `$.", " - inside `")) from None


def _decoded(document: object) -> Case:
    content = msgspec.json.encode(document)
    if isinstance(document, dict) and "operation" in document:
        found = _ANY.decode(content)
        return Case(
            found.operation,
            found.sizes,
            found.dtype,
            found.device,
            id=_id_of(found),
            options=found.options,
            flops=found.flops,
            bytes=found.bytes,
            exponentials=found.exponentials,
        )
    written = _OF_ATTENTION.decode(content)
    return attention_case(*msgspec.structs.astuple(written))


def _id_of(found: _Any) -> str:
    """Raises ValueError for sizes or options that a built-in operation does not have."""
    known = operations.BUILT_IN.get(found.operation)
    words = (found.sizes, found.dtype, found.device, found.options)
    if known is None:
        return case_id(found.operation, *words)
    refusal = ValueError(f"not the sizes and options of {found.operation}")
    if tuple(found.sizes) != tuple(known.sizes):
        raise refusal
    try:
        case = known.parse_id(known.id(*words))
    except InvalidInputError as error:
        raise ValueError(str(error)) from None
    if case.options != found.options:
        raise refusal
    return case.id
