"""The architectures a library has code for, from the headers of CUDA's fat binaries.

A library holds containers: a header (magic number, version, its own size, the size of the rest),
then entries, each a header and its code. Code may be compressed, headers are not. Sizes are in
bytes, numbers little-endian. cuobjdump lists the same, but is rarely installed.
"""

import mmap
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flashbench.preflight.finding import CannotCheck

_SECTION = b".nv_fatbin"  # a stripped library still has the name
_MAGIC = struct.pack("<IHH", 0xBA55ED50, 1, 16)
_SIZE = struct.Struct("<Q")
# Kind, header size, code size, architecture, flags.
_ENTRY = struct.Struct("<H2xIQ12xI8xQ")
_KINDS = {1: "virtual", 2: "real"}  # PTX and machine code
_SPECIFIC, _FAMILY = 1 << 20, 1 << 21  # flags of sm_90a and sm_100f


def has_device_code(library: Path) -> bool:
    """Whether a library has GPU code."""
    with _mapped(library) as data:
        return data.find(_SECTION) >= 0


def archs_of(library: Path) -> set[str]:
    """Return `90a-real` for machine code, `80-virtual` for PTX. CannotCheck if there is GPU code
    whose headers cannot be parsed."""
    with _mapped(library) as data:
        if data.find(_SECTION) < 0:
            return set()
        found = set(_entries(data))
    if not found:
        raise CannotCheck(f"the GPU code of {library.name} has an unknown format")
    return found


@contextmanager
def _mapped(library: Path) -> "Iterator[bytes | mmap.mmap]":
    if not library.stat().st_size:
        yield b""
        return
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield data


def _entries(data: bytes | mmap.mmap) -> Iterator[str]:
    at = data.find(_MAGIC)
    while 0 <= at <= len(data) - len(_MAGIC) - _SIZE.size:
        (size,) = _SIZE.unpack_from(data, at + len(_MAGIC))
        at += len(_MAGIC) + _SIZE.size
        end = min(at + size, len(data))
        while at + _ENTRY.size <= end:
            kind, header, code, arch, flags = _ENTRY.unpack_from(data, at)
            if header < _ENTRY.size:
                break
            if kind in _KINDS:
                suffix = "a" if flags & _SPECIFIC else "f" if flags & _FAMILY else ""
                yield f"{arch}{suffix}-{_KINDS[kind]}"
            at += header + code
        at = data.find(_MAGIC, min(at, end))
