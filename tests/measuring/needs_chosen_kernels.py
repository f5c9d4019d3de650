"""A candidate that cannot be imported before MKL has chosen its vector-math kernels.

MKL's function that says which begins by reading its choice, -1 until then.
"""

import ctypes
import struct
from pathlib import Path

import torch
from torch import Tensor

LIBRARY = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
LOAD = b"\x8b\x05"  # mov eax, [rip + 4 bytes]


def choice() -> int | None:
    """What MKL has chosen; None if it keeps that elsewhere."""
    function = getattr(ctypes.CDLL(LIBRARY), "mkl_vml_serv_cpu_detect", None)
    if function is None:
        return None
    address = ctypes.cast(function, ctypes.c_void_p).value or 0
    code = ctypes.string_at(address, 6)
    if code[:2] != LOAD:
        return None
    return ctypes.c_int.from_address(address + 6 + struct.unpack("<i", code[2:])[0]).value


assert choice() != -1, "MKL has not chosen"


def attention(q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False) -> Tensor:
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
