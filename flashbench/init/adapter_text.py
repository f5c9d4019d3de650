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
_OF_PYTHON = {  # what a required parameter of Python gets
    **dict.fromkeys(_SCALES, "q.shape[-1] ** -0.5"),
    **dict.fromkeys(("mask", "attn_mask", "attention_mask", "attn_bias", "bias"), "None"),
    **dict.fromkeys(("dropout", "dropout_p"), "0.0"),
}
_OUTPUTS = ("o", "out", "output", "res", "result")

_PYTHON = '''\
"""flashbench calls {name} by this module, with the signature of torch's SDPA."""

import torch  # noqa: F401  # before extensions that are linked to it

from {module} import {name} as function


def attention(q, k, v, is_causal=False):
{refusals}    out = function({arguments})
    return {result}
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
_EACH_BATCH = "for q, k, v, o in zip(q, k, v, out):"


def adapter(function: Function, library: str = "", *, transposed: bool = False) -> str:
    """Python source that defines `attention(q, k, v, is_causal=False)`. library: of a C function,
    relative to the adapter. transposed: the function wants (batch, length, heads, head dim)."""
    if not function.module:
        return _of_c(function, library)
    turned = ".transpose(1, 2)" if transposed else ""
    arguments = [f"{one}{turned}{'.numpy()' if function.numpy else ''}" for one in "qkv"]
    arguments += _others(function)
    return _PYTHON.format(
        name=function.name,
        module=function.module,
        refusals=_refusals(function),
        arguments=", ".join(arguments),
        result=("torch.from_numpy(out)" if function.numpy else "out") + turned,
    )


def unknown(function: Function) -> list[str]:
    """Parameters whose meaning must be written by hand."""
    given = _value if function.module else _given
    return [one.name for one in _parameters(function) if one.required and not given(one)]


def cases(function: Function) -> dict[str, list[str] | str]:
    """What the adapter takes, if not everything: keys and values of [tool.flashbench.cases]."""
    dtypes: dict[str, list[str] | str] = {"dtype": ["fp32"]} if _floats_alone(function) else {}
    return dtypes if _is_masked(function) else {**dtypes, "causal": "full"}


def _refusals(function: Function) -> str:
    floats = _FLOATS if _floats_alone(function) else ""
    return floats + ("" if _is_masked(function) else _NO_MASK)


def _floats_alone(function: Function) -> bool:
    return function.numpy or not function.module


def _is_masked(function: Function) -> bool:
    return any(one.name.lower() in _CAUSAL for one in _parameters(function))


def _parameters(function: Function) -> tuple[Parameter, ...]:
    """All of a C function; else those after q, k and v."""
    return function.parameters[3:] if function.module else function.parameters


def _others(function: Function) -> list[str]:
    """Arguments after q, k and v, if they are required or switch the mask. C++ parameter names may
    not be bound, so arguments are positional up to the first that is omitted."""
    by_place, found = bool(function.parameters[0].type), []
    for one in _parameters(function):
        value = _value(one)
        if value or one.required:
            found.append(f"{'' if by_place else f'{one.name}='}{value or f'EDIT_{one.name}'}")
        else:
            by_place = False
    return found


def _value(one: Parameter) -> str:
    """What the adapter passes for a parameter of Python or bound C++; "" if its default will do or
    its name does not say."""
    name = one.name.lower()
    if name in _CAUSAL:
        return "is_causal"
    return _OF_PYTHON.get(name, "") if one.required else ""


def _of_c(function: Function, library: str) -> str:
    """A function without a batch is called for one after another, without heads for each head."""
    given = [_given(one) for one in function.parameters]
    sizes = {value.removeprefix("ctypes.c_int64(").removesuffix(")") for value in given}
    whole = not sizes.isdisjoint(("b", "b * h"))
    lines = [f"library.{function.name}("]
    for one, value in zip(function.parameters, given, strict=True):
        edit = "" if value else f"  # EDIT: what is {one.type} {one.name}?"
        lines.append(f"    {value or one.name},{edit}")
    lines.append(")")
    each = _EACH_BATCH if "h" in sizes else _EACH_HEAD
    lines = ["o = out", *lines] if whole else [each, *(f"    {line}" for line in lines)]
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
