"""Size of a struct with plain members: built-in types, arrays of constants, plain structs."""

import re
from collections.abc import Callable, Sequence

# Bytes and alignment, per CUDA's headers and the ABI of 64-bit Linux.
SIZES: dict[str, tuple[int, int]] = {
    name: (size, alignment)
    for size, alignment, names in (
        (1, 1, "char bool int8_t uint8_t __nv_fp8_e4m3 __nv_fp8_e5m2 byte"),
        (2, 2, "short int16_t uint16_t half __half __nv_bfloat16 nv_bfloat16 Half BFloat16"),
        (4, 4, "int unsigned float int32_t uint32_t half2 __half2 __nv_bfloat162 nv_bfloat162"),
        (8, 8, "double long size_t int64_t uint64_t float2 int2 uint2"),
        (16, 16, "float4 int4 uint4 double2"),
    )
    for name in names.split()
} | {
    "unsigned char": (1, 1),
    "unsigned int": (4, 4),
    "unsigned long": (8, 8),
    "long long": (8, 8),
    "unsigned long long": (8, 8),
    "float3": (12, 4),
}
_ALIGN = r"(?:alignas|__align__)\s*\(([^()]*(?:\([^()]*\))?)\)\s*"
_MEMBER = re.compile(
    rf"\s*(?:{_ALIGN})?(?P<type>[\w:]+(?:\s+(?:int|long|char))*(?:\s*\*)?)\s*(?<!\w)"
    rf"(?P<names>\w+\s*(?:\[[^\[\]]+\]\s*)*(?:,\s*\w+\s*(?:\[[^\[\]]+\]\s*)*)*)\Z"
)
_ARRAY = re.compile(r"\[([^\[\]]+)\]")
Size = tuple[int, int]


def layout(
    name: str,
    texts: Sequence[str],
    size_of: Callable[[str], Size | None],
    value: Callable[[str], int | None],
) -> Size | None:
    """Bytes and alignment of the struct or union `name`; None if the texts do not tell.

    They do not with zero or several definitions, a template, a base, a function or a bit field.
    """
    heading = re.compile(
        rf"(?P<before>>\s*)?\b(?P<kind>struct|union)\s+(?:{_ALIGN})?{re.escape(name)}\s*"
        r"\{(?P<body>[^{}]*)\}"
    )
    defined = re.compile(
        rf"\b(?:struct|union|class)\s+(?:{_ALIGN})?{re.escape(name)}\b[^;(){{]*\{{"
    )
    if sum(len(defined.findall(text)) for text in texts) != 1:
        return None
    match = next((found for text in texts if (found := heading.search(text))), None)
    if match is None or match["before"]:
        return None
    members = [text for text in match["body"].split(";") if text.strip()]
    end, widest = 0, _aligned(match[3], value) if match[3] else 1
    if widest is None:
        return None
    for text in members:
        if re.match(r"\s*(static|using|typedef|friend)\b", text):
            continue
        sizes = _member(text, size_of, value)
        if sizes is None:
            return None
        for size, alignment in sizes:
            widest = max(widest, alignment)
            if match["kind"] == "union":
                end = max(end, size)
            else:
                end = -(-end // alignment) * alignment + size
    return -(-max(end, 1) // widest) * widest, widest


def _member(
    text: str, size_of: Callable[[str], Size | None], value: Callable[[str], int | None]
) -> list[Size] | None:
    """Lay out one declaration, which may name several members."""
    match = _MEMBER.match(text)
    size = size_of(match["type"]) if match else None
    if match is None or size is None:
        return None
    asked = _aligned(match[1], value) if match[1] else 1
    if asked is None:
        return None
    found = []
    for name in match["names"].split(","):
        total = size[0]
        for count in _ARRAY.findall(name):
            length = value(count)
            if length is None or length <= 0:
                return None
            total *= length
        found.append((total, max(size[1], asked)))
    return found


def _aligned(text: str, value: Callable[[str], int | None]) -> int | None:
    asked = value(text)
    return asked if asked is not None and asked > 0 and asked & (asked - 1) == 0 else None
