"""Case: one attention problem to measure candidates on, and the presets of cases.

Does not import torch: `compare` and `show` read cases without that cost.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Literal, get_args

import msgspec

from flashbench.errors import InvalidInputError

DtypeName = Literal["fp32", "fp16", "bf16"]
DTYPES: tuple[DtypeName, ...] = get_args(DtypeName)
# Mask requests: none, causal aligned at the top left, causal aligned at the bottom right.
Causal = bool | Literal["bottom_right"]
MASKS = ("full", "causal", "bottom_right")
BYTES_PER_ELEMENT: dict[str, int] = {"fp32": 4, "fp16": 2, "bf16": 2}


class Shape(msgspec.Struct, frozen=True, order=True, forbid_unknown_fields=True):
    """(batch, heads, kv heads, query length, key length, head dim) of a problem."""

    batch: int
    heads: int
    kv_heads: int
    q_len: int
    k_len: int
    head_dim: int

    def __post_init__(self) -> None:
        if min(msgspec.structs.astuple(self)) < 1:
            raise ValueError("every dimension must be at least 1")
        if self.heads % self.kv_heads:
            raise ValueError(
                f"heads ({self.heads}) must be a multiple of kv heads ({self.kv_heads})"
            )


class Case(msgspec.Struct, frozen=True, order=True, forbid_unknown_fields=True, omit_defaults=True):
    """One cell of the grid: a shape, a dtype, a mask, on a device ("cpu" or "cuda").

    The causal mask hides key j from query i where j > i (aligned at the top left), or, with
    `bottom_right`, where j > i + k_len - q_len.
    """

    shape: Shape
    dtype: DtypeName
    causal: bool
    device: str
    bottom_right: bool = False

    def __post_init__(self) -> None:
        if self.bottom_right and not self.causal:
            raise ValueError("bottom_right is for causal cases alone")

    @property
    def mask(self) -> str:
        """One of `MASKS`."""
        return MASKS[self.causal + self.bottom_right]

    @property
    def id(self) -> str:
        """Name of the case in files, tables and flags, e.g. `b1-h8-q512-d64-fp16-causal-cpu`.

        `g<kv heads>` appears with grouped-query heads, `k<key length>` if it differs from q's.
        """
        s = self.shape
        parts = [f"b{s.batch}", f"h{s.heads}"]
        if s.kv_heads != s.heads:
            parts.append(f"g{s.kv_heads}")
        parts.append(f"q{s.q_len}")
        if s.k_len != s.q_len:
            parts.append(f"k{s.k_len}")
        parts += [f"d{s.head_dim}", self.dtype, self.mask, self.device]
        return "-".join(parts)

    @property
    def pairs(self) -> int:
        """Unmasked query-key pairs, over batch and heads."""
        s = self.shape
        if not self.causal:
            return s.batch * s.heads * s.q_len * s.k_len
        triangle = min(s.q_len, s.k_len)
        # Beside it the rows past the keys, or, at the bottom right, the keys that all rows see.
        beside = s.q_len * (s.k_len - triangle)
        if not self.bottom_right:
            beside = (s.q_len - triangle) * s.k_len
        return s.batch * s.heads * (triangle * (triangle + 1) // 2 + beside)

    @property
    def flops(self) -> int:
        """Floating-point operations of the two matrix products, counting exactly the unmasked
        pairs."""
        return 4 * self.shape.head_dim * self.pairs

    @property
    def bytes(self) -> int:
        """Minimum bytes to move: q, k and v read once, the output written once."""
        s = self.shape
        elements = 2 * s.batch * s.heads * s.q_len + 2 * s.batch * s.kv_heads * s.k_len
        return elements * s.head_dim * BYTES_PER_ELEMENT[self.dtype]


def _square(batch: int, heads: int, length: int, head_dim: int) -> Shape:
    return Shape(batch, heads, heads, length, length, head_dim)


# SDPA's speed is known on these shapes: the bar for our kernels, cell by cell.
GRID = (
    _square(1, 1, 32, 64),
    _square(1, 1, 128, 64),
    _square(1, 8, 512, 64),
    _square(8, 12, 197, 64),
    _square(1, 8, 512, 128),
    _square(4, 16, 1024, 64),
    _square(2, 16, 2048, 64),
    _square(1, 16, 4096, 64),
    _square(1, 16, 16384, 64),
    _square(4, 16, 1024, 128),
    _square(2, 16, 2048, 128),
    _square(1, 16, 4096, 128),
    _square(1, 16, 16384, 128),
    _square(4, 32, 4096, 128),
    _square(1, 8, 4096, 256),
    _square(2, 24, 4096, 96),
)

# Shapes of real models: grouped heads, lengths that fill no tile, keys of another length.
MODELS = (
    Shape(1, 32, 8, 1, 4096, 128),  # decode: Llama 3 8B, one request
    Shape(16, 32, 8, 1, 4096, 128),  # ... and batches of them
    Shape(64, 32, 8, 1, 2048, 128),
    Shape(1, 32, 8, 512, 4608, 128),  # the next 512 tokens of a long prompt
    Shape(1, 32, 8, 2048, 2048, 128),  # prompts
    Shape(2, 32, 8, 8192, 8192, 128),
    Shape(1, 16, 4, 2048, 2048, 256),  # Gemma
    _square(8, 12, 1024, 64),  # GPT-2
    _square(32, 12, 128, 64),  # BERT
    _square(16, 12, 384, 64),
    _square(32, 16, 197, 64),  # ViT-L, 224 and 384 pixels
    _square(16, 16, 577, 64),
    _square(1, 20, 1500, 64),  # Whisper's encoder
    _square(2, 10, 4096, 64),  # SDXL: pixels with pixels, and with 77 tokens of text
    Shape(2, 10, 10, 4096, 77, 64),
    _square(2, 16, 4096, 72),  # DiT
    _square(1, 24, 4608, 128),  # FLUX
)

# Chunked prefill: the next queries of a long prompt over all its keys so far.
CHUNKS = (
    Shape(1, 32, 8, 16, 8192, 128),
    Shape(1, 32, 8, 64, 4096, 128),
    Shape(1, 32, 8, 64, 32768, 128),
    Shape(1, 8, 8, 64, 16384, 128),
    Shape(1, 32, 8, 128, 8192, 128),
    Shape(1, 32, 8, 256, 16384, 128),
    Shape(1, 32, 8, 512, 4608, 128),
    Shape(1, 32, 8, 512, 32768, 128),
    Shape(1, 32, 8, 1024, 4096, 128),
    Shape(4, 32, 8, 256, 8192, 128),
    Shape(1, 32, 8, 512, 8192, 64),
    Shape(1, 16, 4, 512, 8192, 256),
)

PRESETS: dict[str, tuple[Shape, ...]] = {
    "tiny": (_square(1, 1, 32, 64), _square(1, 8, 32, 64)),
    "small": (_square(1, 1, 128, 64), _square(1, 8, 128, 64), _square(4, 8, 128, 64)),
    "medium": (_square(1, 8, 512, 64), _square(8, 12, 197, 64), _square(1, 8, 512, 128)),
    "large": (_square(4, 16, 1024, 64), _square(2, 16, 2048, 128), _square(1, 16, 4096, 64)),
    "headline": (_square(1, 8, 512, 64),),
    "grid": GRID,
    "models": MODELS,
    "chunks": CHUNKS,
}

_FIELD = re.compile(r"(?P<name>[bhgqkd])(?P<value>[1-9][0-9]*)")


def parse_shape(text: str) -> Shape:
    """Read a shape from a flag: `1,8,512,64` (batch, heads, length, head dim) or `b1-h8-q512-d64`.

    The second form also takes `g<kv heads>` and `k<key length>`, as in `Case.id`.
    Raises InvalidInputError with the accepted forms.
    """
    try:
        return _shape_of(text)
    except ValueError as error:
        raise InvalidInputError(
            f"invalid shape {text[:100]!r} ({error}); write BATCH,HEADS,LENGTH,HEAD_DIM "
            "as in 1,8,512,64, or b1-h8-g2-q512-k1024-d64 with separate kv heads (g) and key "
            "length (k)"
        ) from None


def _shape_of(text: str) -> Shape:
    """Raises ValueError with a message for the user."""
    if "," in text:
        numbers = [_number(part.strip()) for part in text.split(",")]
        if len(numbers) != 4:
            raise ValueError(f"{len(numbers)} numbers, not 4")
        return _square(*numbers)
    values: dict[str, int] = {}
    for part in text.split("-"):
        field = _FIELD.fullmatch(part)
        if field is None:
            raise ValueError(f"{part[:20]!r} is not one of b, h, g, q, k, d followed by a number")
        if field["name"] in values:
            raise ValueError(f"{field['name']} appears twice")
        values[field["name"]] = _number(field["value"])
    if missing := [name for name in "bhqd" if name not in values]:
        raise ValueError(f"{', '.join(missing)} is missing")
    b, h, q, d = (values[name] for name in "bhqd")
    return Shape(b, h, values.get("g", h), q, values.get("k", q), d)


def _number(text: str) -> int:
    if not re.fullmatch("[0-9]{1,15}", text) or not int(text):
        raise ValueError(f"{text[:20]!r} is not a number from 1 to 999999999999999")
    return int(text)


def parse_case(text: str) -> Case:
    """Read a case id as in tables and files: `b1-h8-q512-d64-fp16-causal-cpu`.

    Raises InvalidInputError with the accepted form.
    """
    shape, *rest = text.rsplit("-", 3)
    if len(rest) == 3 and rest[0] in DTYPES and rest[1] in MASKS:
        dtype: DtypeName = next(name for name in DTYPES if name == rest[0])
        if rest[2] in ("cpu", "cuda"):
            mask = MASKS.index(rest[1])
            return Case(parse_shape(shape), dtype, mask > 0, rest[2], mask > 1)
    raise InvalidInputError(
        f"invalid case {text[:100]!r}; write it as in tables, such as b1-h8-q512-d64-fp16-full-cpu"
    )


def grid(
    shapes: Iterable[Shape], dtypes: Sequence[DtypeName], causal: Sequence[Causal], device: str
) -> list[Case]:
    """Every combination, without repeats, ordered by shape, then dtype, full before causal."""
    cases = [
        Case(s, d, bool(c), device, c == "bottom_right")
        for s in shapes
        for d in dtypes
        for c in causal
    ]
    return list(dict.fromkeys(cases))
