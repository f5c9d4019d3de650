"""The shapes of attention problems, and their presets."""

import re

import msgspec

from flashbench.errors import InvalidInputError


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

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes of a `Case`."""
        return msgspec.structs.asdict(self)


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
    Shape(1, 28, 4, 64, 32768, 128),
    Shape(1, 8, 8, 256, 16384, 128),
    Shape(1, 8, 8, 128, 8192, 64),
    Shape(1, 32, 8, 64, 16384, 64),
    Shape(1, 16, 4, 64, 8192, 256),
    Shape(1, 16, 4, 256, 8192, 256),
)

# Gradients: square shapes of the grid, other head dims, grouped heads.
GRADIENTS = (
    _square(1, 8, 512, 64),
    _square(8, 12, 197, 64),
    _square(4, 16, 1024, 64),
    _square(1, 16, 4096, 64),
    _square(1, 16, 16384, 64),
    _square(4, 16, 1024, 128),
    _square(2, 16, 2048, 128),
    _square(1, 16, 4096, 128),
    _square(4, 32, 4096, 128),
    _square(1, 16, 16384, 128),
    Shape(1, 32, 8, 4096, 4096, 128),
    _square(2, 24, 4096, 96),
    _square(2, 16, 4096, 80),
    _square(2, 16, 4096, 112),
    _square(2, 8, 4096, 192),
    _square(1, 8, 4096, 256),
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
