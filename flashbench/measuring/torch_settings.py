"""Guard torch settings that a candidate could change for all others.

A candidate that leaves torch with one thread, or without its fast SDPA backend, looks fast beside
an SDPA that it has slowed down.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

Values = dict[str, Any]

# Name in messages, getter, setter.
_SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
    "threads": (torch.get_num_threads, torch.set_num_threads),
    "float32 matmul precision": (
        torch.get_float32_matmul_precision,
        torch.set_float32_matmul_precision,
    ),
    "deterministic algorithms": (
        torch.are_deterministic_algorithms_enabled,
        torch.use_deterministic_algorithms,
    ),
    "SDPA's flash": (torch.backends.cuda.flash_sdp_enabled, torch.backends.cuda.enable_flash_sdp),
    "SDPA's efficient": (
        torch.backends.cuda.mem_efficient_sdp_enabled,
        torch.backends.cuda.enable_mem_efficient_sdp,
    ),
    "SDPA's math": (torch.backends.cuda.math_sdp_enabled, torch.backends.cuda.enable_math_sdp),
    "SDPA's cudnn": (torch.backends.cuda.cudnn_sdp_enabled, torch.backends.cuda.enable_cudnn_sdp),
}


def current() -> Values:
    """The current settings."""
    return {name: read() for name, (read, _) in _SETTINGS.items()}


def restore(before: Values) -> str:
    """Restore what differs from `before`; returns the differences, such as `threads: 2 -> 1`."""
    changed = []
    for name, value in current().items():
        if value != before[name]:
            _SETTINGS[name][1](before[name])
            changed.append(f"{name}: {before[name]} -> {value}")
    return ", ".join(changed)


def set_aside(before: Values) -> Values:
    """Undo what an import changed, and return its choices, to apply to its candidate's calls only.
    Threads are the run's own choice."""
    now = current()
    restore(before)
    return {
        name: value for name, value in now.items() if value != before[name] and name != "threads"
    }


@contextmanager
def applied(chosen: Values) -> Iterator[None]:
    """Apply a candidate's settings while it is called."""
    before = {name: _SETTINGS[name][0]() for name in chosen}
    for name, value in chosen.items():
        _SETTINGS[name][1](value)
    try:
        yield
    finally:
        for name, value in before.items():
            _SETTINGS[name][1](value)
