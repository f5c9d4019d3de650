"""Detect traces: what a revision leaves in a process outside its modules, where others find it.

Two revisions share a process only if neither leaves any: a registered operator, a library beside
its extension modules, an environment variable, a patched function, an entry in another package's
registry. Modules outside the revisions are searched three levels deep: their attributes, what these
hold (entries or attributes), and the entries of those.
"""

import contextlib
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, ModuleType, UnionType
from typing import Any

import torch

# The worker's own, and what its clocks call; a revision's copy of these is in its import root.
_OURS = ("__main__", "flashbench", "pynvml")
# Types compared by value, not identity.
_SIMPLE = (int, float, complex, str, bytes, type(None), frozenset)
# Most of what modules hold; not searched.
_LEAVES = frozenset({*_SIMPLE, bool, tuple, FunctionType, BuiltinFunctionType})

_State = dict[str, Mapping[Any, Any]]


def state() -> _State:
    """Everything that revisions could share in this process: values by location.

    Keeps the values alive, so that no new object reuses an address.
    """
    found: _State = {
        "the environment variable": dict(os.environ),
        "the operator": {
            name: torch._C._dispatch_dump(name) for name in torch._C._dispatch_get_all_op_names()
        },
        "torch's": {
            "default dtype": str(torch.get_default_dtype()),
            "function modes": torch._C._len_torch_function_stack(),
            "dispatch modes": torch._C._len_torch_dispatch_stack(),
        },
        "Python's": {"threads": frozenset(thread.ident for thread in threading.enumerate())},
    }
    for name, module in list(sys.modules.items()):
        if isinstance(module, ModuleType) and name.partition(".")[0] not in _OURS:
            found.update(_of_module(name, module))
    return found


def difference(before: _State, after: _State) -> str:
    """Describe the first difference; "" without any. Contents of a module imported in between do
    not count, because any importer finds them."""
    for place, old in before.items():
        new = after.get(place, old)
        for key in new:
            if key not in old:
                return f"{place} {_shown(key)} was added"
            if not _same(old[key], new[key]):
                return f"{place} {_shown(key)} was changed"
        for key in old.keys() - new.keys():
            return f"{place} {_shown(key)} was removed"
    return ""


def _of_module(name: str, module: ModuleType) -> Iterator[tuple[str, Mapping[Any, Any]]]:
    """A module's attributes, those of its classes, and the contents of its containers.

    In the standard library, only functions and classes: its caches change all the time.
    """
    library = name.partition(".")[0] in sys.stdlib_module_names
    attributes: dict[str, Any] = {}
    for key, value in list(vars(module).items()):
        kind = type(value)
        if (library and not callable(value)) or issubclass(kind, ModuleType):
            continue
        if key.startswith("__") and key.endswith("__"):
            continue
        attributes[key] = value
        if kind in _LEAVES:
            continue
        if issubclass(kind, type):
            if value.__module__ == name:
                held = vars(value).copy()  # many times faster than its items one by one
                functions = {k: v for k, v in held.items() if callable(v)} if library else held
                yield f"{name}.{key}'s", functions
        elif not library:
            yield from _held(f"{name}.{key}", value)
    yield f"{name}'s", attributes


def _held(name: str, value: Any) -> Iterator[tuple[str, Mapping[Any, Any]]]:
    """The contents of a container; otherwise the object's attributes and their contents."""
    if _is(value, dict):
        yield f"in {name}", _entries(value)
    elif _is(value, list):
        yield f"in {name}", {id(held): held for held in list.__getitem__(value, slice(None))}
    elif _is(value, set):
        yield f"in {name}", {id(held): held for held in set.copy(value)}
    elif not _is(value, FunctionType):
        attributes: Any = None
        with contextlib.suppress(AttributeError, TypeError):  # it has none
            attributes = object.__getattribute__(value, "__dict__")
        if _is(attributes, dict):
            entries = _entries(attributes)
            yield f"{name}'s", entries
            for key, held in entries.items():
                if _is(held, dict | list | set):
                    yield from _held(f"{name}.{key}", held)


def _entries(value: Any) -> dict[Any, Any]:
    """A dictionary's contents, bypassing its own methods, which may load on demand. A plain copy,
    made atomically, because other threads may write to it."""
    if type(value) is dict:
        return value.copy()  # ten times faster: no rehashing
    return dict(list(dict.items(value)))


def _is(value: Any, kind: type | UnionType) -> bool:
    """`isinstance` by type alone, because some of torch's objects warn when asked."""
    return issubclass(type(value), kind)


def _same(old: Any, new: Any) -> bool:
    return old is new or (type(old) is type(new) and isinstance(old, _SIMPLE) and old == new)


def _shown(key: Any) -> str:
    return key if isinstance(key, str) else f"an entry ({type(key).__name__})"
