"""Keep the dynamic linker from merging static variables of two revisions.

GCC marks static members of templates and static variables of inline functions as unique
(STB_GNU_UNIQUE): all libraries of a process share the first definition, however they were loaded.
The second revision would run with the first one's variables. In the copies that are loaded such
symbols become weak, as under `-fno-gnu-unique` or hidden visibility. Symbols that libraries outside
the revisions define too, such as torch's, stay shared.

Layout: System V ABI, "Object Files"; 64-bit little-endian ELF.
"""

import contextlib
import ctypes
import mmap
import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

_MAGIC = b"\x7fELF\x02\x01"  # 64 bit, little-endian
_SECTION_TABLE = struct.Struct("<40xQ10xHH")  # of the file's head: offset, entry size, entries
_SECTION = struct.Struct("<4xI16xQQI")  # type, offset, size, link
_SYMBOL = struct.Struct("<IB19x")  # name, binding and type
_DYNAMIC_SYMBOLS = 11
_UNIQUE, _WEAK = 10, 2


def make_ordinary(libraries: Iterable[Path], shared_with: Iterable[str]) -> list[str]:
    """Rewrite the unique symbols of libraries that are not loaded yet; returns their names.

    shared_with: loaded libraries, whose symbols stay unique. A file that is not an ELF library is
    left alone.
    """
    others = []
    for name in shared_with:
        with contextlib.suppress(OSError):  # mapped, but not a library
            others.append(ctypes.CDLL(name, mode=os.RTLD_NOLOAD | os.RTLD_LAZY))
    changed = []
    for path in libraries:
        if not path.stat().st_size:  # cannot be mapped
            continue
        # In place: each launch does this with copies of tens of MB.
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as content:
            for place, name in _unique_symbols(content):
                if not any(_defines(other, name) for other in others):
                    content[place] = _WEAK << 4 | content[place] & 15
                    changed.append(name)
    return changed


def _defines(library: ctypes.CDLL, name: str) -> bool:
    try:
        library[name]
    except AttributeError:
        return False
    return True


def _unique_symbols(content: mmap.mmap) -> Iterator[tuple[int, str]]:
    """Offset of the binding, and name, of each unique symbol."""
    if content[: len(_MAGIC)] != _MAGIC:
        return
    try:
        start, entry, count = _SECTION_TABLE.unpack_from(content)
        sections = [_SECTION.unpack_from(content, start + i * entry) for i in range(count)]
        for kind, offset, size, link in sections:
            if kind != _DYNAMIC_SYMBOLS:
                continue
            names = sections[link][1]
            for place in range(offset, offset + size, _SYMBOL.size):
                name, info = _SYMBOL.unpack_from(content, place)
                if info >> 4 == _UNIQUE:
                    if (end := content.find(b"\0", names + name)) < 0:
                        return
                    yield place + 4, content[names + name : end].decode()
    except (struct.error, IndexError, ValueError):
        return  # damaged; the loader has the better message
