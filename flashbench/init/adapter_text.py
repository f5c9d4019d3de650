"""The text of an adapter: a module that calls a function as SDPA is called."""

from flashbench.init.attention_functions import Function, Parameter

_CAUSAL = ("causal", "is_causal", "causal_mask", "use_causal")
_SCALES = ("scale", "sm_scale", "softmax_scale", "scaling")
# What an integer of a C function is, by its usual names.
_SIZES = {
    "b": "b batch batch_size bs nb n_batch",
    "h": "h heads n_heads num_heads nheads nh n_head head",
    "b * h": "bh batch_heads bxh",
    "n": "n s l t seq seqlen seq_len length len tokens n_q q_len nq sq lq seqlen_q seq_len_q",
    "m": "m k_len kv_len n_k nk sk lk n_kv seqlen_k seq_len_k",
    "d": "d dim head_dim headdim hd d_k dk d_head head_size",
}
_OUTPUTS = ("o", "out", "output", "res", "result")

_PYTHON = '''\
"""flashbench calls {name} by this module, with the signature of torch's SDPA."""

import torch  # noqa: F401  # before extensions that are linked to it

from {module} import {name} as function


def attention(q, k, v, is_causal=False):
{refusals}    return {result}
'''
_C = '''\
"""flashbench calls {name} by this module, with the signature of torch's SDPA."""

import ctypes
from pathlib import Path

import torch

library = ctypes.CDLL(str(Path(__file__).parent / "{library}"))
library.{name}.restype = None


def pointer(x):
    return ctypes.c_void_p(x.data_ptr())


def attention(q, k, v, is_causal=False):
{refusals}    b, h, n, d = q.shape
    m = k.shape[2]
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    out = torch.empty_like(q)
{call}
    return out
'''
_FLOATS = """\
    if q.dtype != torch.float32 or q.device.type != "cpu":
        raise NotImplementedError("float32 on CPUs alone")
"""
_NO_MASK = """\
    if is_causal:
        raise NotImplementedError("no causal mask")
"""
_EACH_HEAD = "for q, k, v, o in zip(*(x.flatten(0, 1) for x in (q, k, v, out))):"


def adapter(function: Function, library: str = "", *, transposed: bool = False) -> str:
    """Python source that defines `attention(q, k, v, is_causal=False)`. library: of a C function,
    relative to the adapter. transposed: the function wants (batch, length, heads, head dim)."""
    if not function.module:
        return _of_c(function, library)
    turned = ".transpose(1, 2)" if transposed else ""
    causal = _causal(function)
    arguments = [f"{one}{turned}{'.numpy()' if function.numpy else ''}" for one in "qkv"]
    if causal:  # of C++ names may not be bound
        by_place = function.parameters[3].type and function.parameters[3].name == causal
        arguments.append("is_causal" if by_place else f"{causal}=is_causal")
    called = f"function({', '.join(arguments)})"
    return _PYTHON.format(
        name=function.name,
        module=function.module,
        refusals=_refusals(function),
        result=(f"torch.from_numpy({called})" if function.numpy else called) + turned,
    )


def unknown(function: Function) -> list[str]:
    """Parameters of a C function whose meaning must be written by hand."""
    return [one.name for one in function.parameters if not function.module and not _given(one)]


def _refusals(function: Function) -> str:
    floats = _FLOATS if function.numpy or not function.module else ""
    return floats + ("" if _causal(function) else _NO_MASK)


def _causal(function: Function) -> str:
    names = [one.name for one in function.parameters[3:]]
    return next((name for name in names if name.lower() in _CAUSAL), "")


def _of_c(function: Function, library: str) -> str:
    """A function without a batch is called for one head after another."""
    whole = any(_given(one) in ("b", "b * h") for one in function.parameters)
    lines = [f"library.{function.name}("]
    for one in function.parameters:
        given = _given(one)
        edit = "" if given else f"  # EDIT: what is {one.type} {one.name}?"
        lines.append(f"    {given or one.name},{edit}")
    lines.append(")")
    lines = ["o = out", *lines] if whole else [_EACH_HEAD, *(f"    {line}" for line in lines)]
    return _C.format(
        name=function.name,
        library=library,
        refusals=_refusals(function),
        call="\n".join(f"    {line}" for line in lines),
    )


def _given(one: Parameter) -> str:
    """What the adapter passes for a parameter of C; "" if its name does not say."""
    name = one.name.lower().rstrip("_")
    if one.is_pointer:
        if name in _OUTPUTS:
            return "pointer(o)"
        return f"pointer({name[0]})" if name[:1] in ("q", "k", "v") else ""
    if name in _CAUSAL:
        return "int(is_causal)"
    if name in _SCALES:
        return "ctypes.c_float(d**-0.5)"
    size = next((value for value, names in _SIZES.items() if name in names.split()), "")
    wide = "long" in one.type or "size_t" in one.type or "64" in one.type
    return f"ctypes.c_int64({size})" if size and wide else size
